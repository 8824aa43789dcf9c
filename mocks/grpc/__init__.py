"""The same mocks by gRPC, of the `.proto` files of a suite."""

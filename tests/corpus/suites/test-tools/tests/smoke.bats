@test "the shell works" {
  run true
  [ "$status" -eq 0 ]
}

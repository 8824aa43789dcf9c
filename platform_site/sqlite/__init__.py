"""The database engine `platform_site.sqlite`."""

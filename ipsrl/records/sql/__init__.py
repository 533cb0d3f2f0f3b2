"""The tables of results in DuckDB: their columns, how runs are read into them, Parquet files."""

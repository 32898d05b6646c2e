"""What a result looks like: tables, timelines, JSON and Parquet."""

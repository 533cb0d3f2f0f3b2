"""What runs write and what reads it: run folders, metric logs, tidy records, results, reports."""

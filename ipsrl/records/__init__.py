"""Files that runs write, and their readers: run folders, metric logs, tidy records, results, reports."""

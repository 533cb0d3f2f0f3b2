"""Models in the format of llama.cpp, turned into folders that the policies read."""

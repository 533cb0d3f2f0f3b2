"""Other trainers as contenders: each program runs with the libraries of its own environment, without ipsrl."""

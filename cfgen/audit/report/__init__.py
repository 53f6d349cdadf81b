"""What an audit shows people: the page, its figures and words, and what the command prints."""

"""What a chain looks like and does, shown to people: pictures, words, times and progress."""

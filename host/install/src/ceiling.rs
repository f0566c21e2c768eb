//! What a tool could ever ask for, in plain words, and the difference of two.

//! Pure parts of sandboxd.

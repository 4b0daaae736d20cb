mod bounds;
mod suite;

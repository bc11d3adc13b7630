mod properties;
mod shapes;

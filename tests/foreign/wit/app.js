export function add(a, b) {
  return a + b;
}

export function lines(path) {
  return path.split('/').length;
}

export function spin() {
  for (;;) {}
}

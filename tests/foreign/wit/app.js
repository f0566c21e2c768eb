import { getDirectories } from 'wasi:filesystem/preopens@0.2.6';

const NEWLINE = 10;

export function add(a, b) {
  return a + b;
}

function contentOf(path) {
  for (const [folder, name] of getDirectories()) {
    if (path.startsWith(`${name}/`)) {
      const file = folder.openAt({ symlinkFollow: true }, path.slice(name.length + 1), {}, { read: true });
      return file.read(1 << 16, 0)[0];
    }
  }
  throw { payload: 'no folder holds it' };
}

export function lines(path) {
  try {
    return contentOf(path).filter((byte) => byte === NEWLINE).length;
  } catch (error) {
    throw { payload: `cannot read ${path}: ${error.payload ?? error}` };
  }
}

export function spin() {
  for (;;) {}
}

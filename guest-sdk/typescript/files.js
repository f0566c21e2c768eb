// Files, as far as the call was granted their folders. Paths are absolute, or relative to the caller's working directory.
import * as host from '#host';

export const files = /* @__PURE__ */ Object.freeze({
  read: (path) => host.readFile(path),
  readText: (path) => host.decode(host.readFile(path)),
  write: (path, bytes) => host.writeFile(path, bytes),
  writeText: (path, text) => host.writeFile(path, host.encode(text)),
  list: (path) => host.listFolder(path),
});

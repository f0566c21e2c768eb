// Where the code of a bundle is from, so that stack traces name the files of the tool. The build writes the table into the
// component.

/**
 * Replaces places in the bundle by those in the sources. `at` has four numbers for each part of the bundle: its line and its
 * column there, its file, and its line in the file; 0: of a package, or of the SDK.
 */
export function placed(text, { files, at }) {
  return text.replace(/\(?componentize-qjs:user\.js:(\d+)(?::(\d+))?\)?/g, (whole, line, column) => {
    const [row, letter] = [Number(line), Number(column ?? 1)];
    let part;
    for (let next = 0; next < at.length; next += 4) {
      if (at[next] > row || (at[next] === row && at[next + 1] >= letter)) break;
      part = next;
    }
    if (part === undefined) return whole;
    const [file, place] = [files[at[part + 2]], at[part + 3]];
    return place === 0 ? `(${file})` : `(${file}:${place})`;
  });
}

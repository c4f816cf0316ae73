/** Colours a patch as git does: headers bold, places cyan, removed lines red, added lines green. */
import type { Style } from '../text/style.ts';

const HEADER =
  /^(?:diff --git |index [0-9a-f]|(?:--- |\+\+\+ )(?:"?[ab]\/|\/dev\/null)|(?:old|new) mode |(?:new|deleted) file mode |(?:rename|copy) (?:from|to) |similarity index )/;

/** @param text  whole lines, which may come from a guest and are sanitized */
export function paintPatch(text: string, style: Style): string {
  return text.replace(/^.+$/gm, (line) => {
    if (HEADER.test(line)) return style.bold(line);
    if (line.startsWith('@@ ')) return style.cyan(line);
    if (line.startsWith('+')) return style.green(line);
    return line.startsWith('-') ? style.red(line) : line;
  });
}

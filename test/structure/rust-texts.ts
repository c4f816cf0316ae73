/** The texts of a source in Rust that people read: errors, reasons and help. */

/** True for sources of the keeper and of the guest's programs, not for their tests. */
export function isRustOfProduct(path: string): boolean {
  return /^(?:native|guest)\/.*\.rs$/.test(path) && !/\/tests(?:\/|\.rs$)/.test(path);
}

/**
 * Returns the string literals of a source with their first lines. A value that is filled in becomes `…`; characters,
 * comments and what exists only in tests (`#[cfg(test)]`) are left out.
 */
export function rustTextsIn(source: string): readonly { readonly line: number; readonly text: string }[] {
  const found: { readonly line: number; readonly text: string }[] = [];
  let line = 1;
  /** The depth of braces at which an item of tests began, until the end of the item. */
  let skippedAt: number | null = null;
  let isOfTests = false;
  let depth = 0;
  let parens = 0;
  let parensBefore = 0;
  for (const { 0: token, groups } of source.matchAll(TOKEN)) {
    const text = groups?.['raw'] ?? (groups?.['plain'] === undefined ? null : unescape(groups['plain']));
    if (text !== null && text !== undefined && skippedAt === null) found.push({ line, text: toTemplate(text) });
    line += token.split('\n').length - 1;
    if (token === '#[cfg(test)]') {
      isOfTests = true;
      parensBefore = parens;
    }
    if (token === '{') {
      if (isOfTests && skippedAt === null) skippedAt = depth;
      isOfTests = false;
      depth += 1;
    }
    if (token === '}') {
      depth -= 1;
      if (depth === skippedAt) skippedAt = null;
    }
    if (token === '(') parens += 1;
    if (token === ')') parens -= 1;
    // A declaration, a field or a value of tests has no braces; parameters have commas, too.
    if (token === ';' || (token === ',' && parens === parensBefore)) isOfTests = false;
  }
  return found;
}

/** Comments, strings and characters hide braces; a lifetime such as `'a` is not a character. */
const TOKEN =
  /\/\/[^\n]*|\/\*[^]*?\*\/|\b(?:b|c)?r(#*)"(?<raw>[^]*?)"\1|(?:\b[bc])?"(?<plain>(?:[^"\\]|\\[^])*)"|(?:\bb)?'(?:[^'\\\n]|\\[^\n]+?)'|#\[cfg\(test\)\]|[{}();,\n]/g;

const ESCAPES: Readonly<Record<string, string>> = { n: '\n', t: '\t', r: '\r', '0': '\0' };

function unescape(text: string): string {
  return text.replace(/\\(?:\n\s*|x([0-9a-fA-F]{2})|u\{([0-9a-fA-F_]+)\}|([^]))/g, (_, byte, code, one) => {
    if (byte !== undefined || code !== undefined) return String.fromCodePoint(parseInt(byte ?? code, 16));
    return one === undefined ? '' : (ESCAPES[one] ?? one);
  });
}

/** Values of `format!`; `{{` is a brace. */
function toTemplate(text: string): string {
  return text.replace(/\{\{|\}\}|\{[\w.]*(?::[^{}]*)?\}/g, (part) => (part === '{{' || part === '}}' ? part[0]! : '…'));
}

/** The names of the tests of a source: those that it writes, and those that its tables give. */
import { childrenOf, is, keyName, memberName, type Node, parse, unwrap } from '../../skill-kit/lint/syntax.ts';
import { toText } from './words.ts';

export interface TestName {
  readonly line: number;
  readonly text: string;
}

const TEST_CALLS = new Set(['test', 'it', 'describe']);

/**
 * Names that a program makes have `…` for their values. A test of a table has a name for each row whose words the source
 * contains.
 * @param rows  `skipped` for tests whose rows are samples of text
 */
export function listTestNames(path: string, source: string, rows: 'read' | 'skipped' = 'read'): readonly TestName[] {
  const program = parse(path, source);
  const tables = findTables(program);
  const found: TestName[] = [];
  const add = (node: Node, text: string): void => {
    const name = { line: source.slice(0, node.start).split('\n').length, text };
    if (!found.some((known) => known.line === name.line && known.text === text)) found.push(name);
  };
  const visit = (node: Node, loops: readonly Loop[]): void => {
    if (is(node, 'CallExpression') && TEST_CALLS.has(nameOfCall(node.callee))) {
      const [title] = node.arguments;
      const text = title === undefined ? null : toText(title);
      if (text !== null) add(node, text);
      for (const row of rows === 'read' ? rowsOfCall(node, tables) : [])
        if (text !== null) for (const filled of fillTitle(text, row)) add(row, filled);
      if (title !== undefined && text === null)
        for (const name of namesFromLoops(title, loops)) add(name, toText(unwrap(name))!);
    }
    const inner = is(node, 'ForOfStatement') ? [...loops, toLoop(node, tables)] : loops;
    for (const child of childrenOf(node)) visit(child, inner);
  };
  visit(program, []);
  return found;
}

/** The names of promises in tables of test/conformance: objects with a `name` and a function `run`. */
export function listPromiseNames(path: string, source: string): readonly TestName[] {
  const found: TestName[] = [];
  const visit = (node: Node): void => {
    if (is(node, 'ObjectExpression') && valueOfKey(node, 'run') !== null) {
      const name = valueOfKey(node, 'name');
      const text = name === null ? null : toText(unwrap(name));
      if (text !== null) found.push({ line: source.slice(0, node.start).split('\n').length, text });
    }
    for (const child of childrenOf(node)) visit(child);
  };
  visit(parse(path, source));
  return found;
}

/** `test`, also of `test.each(…)` and `test.skipIf(…)`. */
function nameOfCall(callee: Node): string {
  if (is(callee, 'Identifier')) return callee.name;
  if (is(callee, 'MemberExpression')) return nameOfCall(callee.object);
  if (is(callee, 'CallExpression')) return nameOfCall(callee.callee);
  return '';
}

type Tables = ReadonlyMap<string, Node>;

/** Constants whose value the source writes as a list or an object. */
function findTables(program: Node): Tables {
  const tables = new Map<string, Node>();
  const visit = (node: Node): void => {
    if (is(node, 'VariableDeclarator') && is(node.id, 'Identifier') && node.init) {
      const value = unwrap(node.init);
      if (is(value, 'ArrayExpression', 'ObjectExpression')) tables.set(node.id.name, value);
    }
    for (const child of childrenOf(node)) visit(child);
  };
  visit(program);
  return tables;
}

/** The rows of `test.each(TABLE)(…)`. */
function rowsOfCall({ callee }: Node & { readonly callee: Node }, tables: Tables): readonly Node[] {
  if (!is(callee, 'CallExpression') || !is(callee.callee, 'MemberExpression')) return [];
  if (!['each', 'for'].includes(memberName(callee.callee) ?? '')) return [];
  const [table] = callee.arguments;
  return table === undefined ? [] : rowsOf(table, tables);
}

/** Rows of a list; for `Object.entries` and `Object.keys`, the properties of the object. */
function rowsOf(table: Node, tables: Tables): readonly Node[] {
  const value = resolve(table, tables);
  if (is(value, 'ArrayExpression')) return value.elements.flatMap((row) => (row === null ? [] : [unwrap(row)]));
  if (!is(value, 'CallExpression') || !is(value.callee, 'MemberExpression')) return [];
  if (!['entries', 'keys'].includes(memberName(value.callee) ?? '') || value.arguments[0] === undefined) return [];
  const object = resolve(value.arguments[0], tables);
  return is(object, 'ObjectExpression') ? object.properties : [];
}

function resolve(node: Node, tables: Tables): Node {
  const value = unwrap(node);
  return is(value, 'Identifier') ? (tables.get(value.name) ?? value) : value;
}

/**
 * The title of a row, with the texts of its values; another value becomes `…`. It is empty if no text of the row is a
 * part of the title.
 */
function fillTitle(title: string, row: Node): readonly string[] {
  let isFilled = false;
  let at = 0;
  const filled = title.replace(/%[sifdjo]|%%|\$([a-zA-Z]\w*)/g, (placeholder, name: string | undefined) => {
    if (placeholder === '%%') return '%';
    const value = name === undefined ? valueAt(row, at) : valueOfKey(row, name);
    if (name === undefined) at += 1;
    const text = value === null ? null : textOfValue(value);
    if (text === null || !isProse(text)) return '…';
    isFilled = true;
    return text;
  });
  return isFilled ? [filled] : [];
}

/** Words for people: two words at least, and no code, markup or lines. */
function isProse(text: string): boolean {
  return /^[\w`'’"(-][^\n{}<>=;|]*$/.test(text) && /[a-z]+,? [a-z`]+/.test(text);
}

/** A template has values that are not known here, so its words count as far as they go. */
function textOfValue(node: Node): string | null {
  return toText(unwrap(node));
}

/** The value of a row for its placeholder `%s` with this number; a property is a key and a value. */
function valueAt(row: Node, at: number): Node | null {
  if (is(row, 'ArrayExpression')) return row.elements[at] ?? null;
  if (is(row, 'Property')) return at === 0 ? toKeyNode(row) : row.value;
  return at === 0 ? row : null;
}

function toKeyNode(property: Node & { readonly key: Node; readonly computed: boolean }): Node | null {
  return property.computed ? null : property.key;
}

function valueOfKey(row: Node, name: string): Node | null {
  if (!is(row, 'ObjectExpression')) return null;
  for (const property of row.properties)
    if (is(property, 'Property') && keyName(property) === name) return property.value;
  return null;
}

/** A loop over a table: its variable, and the rows. */
interface Loop {
  readonly variable: Node;
  readonly rows: readonly Node[];
}

function toLoop({ left, right }: Node & { readonly left: Node; readonly right: Node }, tables: Tables): Loop {
  const [declared] = is(left, 'VariableDeclaration') ? left.declarations : [];
  return { variable: declared?.id ?? left, rows: rowsOf(right, tables) };
}

/** Texts that a name of a loop's variable has: `for (const { name } of ROWS) test(name, …)`. */
function namesFromLoops(title: Node, loops: readonly Loop[]): readonly Node[] {
  return loops.flatMap(({ variable, rows }) => {
    const read = readerOf(variable, title);
    if (read === null) return [];
    return rows.flatMap((row) => {
      const value = read(row);
      const text = value === null ? null : textOfValue(value);
      return value === null || text === null || !isProse(text) ? [] : [value];
    });
  });
}

function readerOf(variable: Node, title: Node): ((row: Node) => Node | null) | null {
  if (is(title, 'MemberExpression')) {
    const name = memberName(title);
    if (!is(variable, 'Identifier') || !is(title.object, 'Identifier') || title.object.name !== variable.name)
      return null;
    return name === null ? null : (row) => valueOfKey(row, name);
  }
  if (!is(title, 'Identifier')) return null;
  if (is(variable, 'Identifier')) return variable.name === title.name ? (row) => row : null;
  if (is(variable, 'ArrayPattern')) {
    const at = variable.elements.findIndex((each) => is(each, 'Identifier') && each.name === title.name);
    return at === -1 ? null : (row) => valueAt(row, at);
  }
  if (!is(variable, 'ObjectPattern')) return null;
  const property = variable.properties.find(
    (each) => is(each, 'Property') && is(each.value, 'Identifier') && each.value.name === title.name,
  );
  const name = is(property, 'Property') ? keyName(property) : null;
  return name === null ? null : (row) => valueOfKey(row, name);
}

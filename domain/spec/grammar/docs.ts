/** The tables of keys in docs/spec.md; a test keeps the file equal to them. */
import { SANDBOX } from './sandbox-table.ts';
import { PIPELINE, SPEC, WORKFLOW } from './spec-table.ts';
import { STAGE } from './stage-table.ts';
import type { Json, Key, MappingTable, ValueType } from './table.ts';

/** Tables with a place of their own in the docs, by the name that the marker there has. */
const SECTIONS: Readonly<Record<string, MappingTable>> = {
  spec: SPEC,
  workflow: WORKFLOW,
  pipeline: PIPELINE,
  stage: STAGE,
  sandbox: SANDBOX,
};

const HEAD = ['| key | value | default | example | |', '|---|---|---|---|---|'];

/** Between `<!-- keys: stage -->` and `<!-- end -->` stands a table of keys; the text with all of them written anew. */
export function writeTables(text: string): string {
  const missing = new Set(Object.keys(SECTIONS));
  const written = text.replace(
    /(<!-- keys: (\w+) -->\n)[^]*?(<!-- end -->)/g,
    (_all, begin: string, name: string, end: string) => {
      const table = SECTIONS[name];
      if (table === undefined || !missing.delete(name))
        throw new Error(`docs/spec.md has a marker for ${name}, which is no table or stands there twice`);
      return `${begin}${[...HEAD, ...rowsOf(table, '')].join('\n')}\n${end}`;
    },
  );
  if (missing.size > 0)
    throw new Error(
      `docs/spec.md has no place for the keys of ${[...missing].join(', ')}: write <!-- keys: … --> and <!-- end -->`,
    );
  return written;
}

function rowsOf({ keys }: MappingTable, prefix: string): readonly string[] {
  return Object.entries(keys).flatMap(([name, key]) => [
    row(`${prefix}${name}`, key),
    ...rowsBelow(key.type, `${prefix}${name}`),
  ]);
}

/** Of a mapping that has no place of its own. */
function rowsBelow(type: ValueType, path: string): readonly string[] {
  if (type.is === 'list') return rowsBelow(type.of, `${path}[]`);
  if (type.is === 'parameters') return rowsOf(type.table, `${path}.NAME.`);
  if (type.is === 'mapping') return Object.values(SECTIONS).includes(type.table) ? [] : rowsOf(type.table, `${path}.`);
  if (type.is !== 'variants') return [];
  const variants = Object.entries(type.tables);
  const words = variants.map(([word]) => code(word)).join(', ');
  return [
    cells([code(`${path}.${type.by.key}`), words, 'required', code(variants[0]![0]), type.by.doc]),
    ...variants.flatMap(([word, table]) =>
      rowsOf(table, `${path}.`).map((line) => line.replace(' |', ` of \`${word}\` |`)),
    ),
  ];
}

function row(path: string, key: Key): string {
  const kinds = key.kinds === undefined ? [] : [`Kind ${key.kinds.map(code).join(', ')} only.`];
  return cells([code(path), valueOf(key.type), defaultOf(key), code(flow(key.example)), [key.doc, ...kinds].join(' ')]);
}

function defaultOf(key: Key): string {
  if (key.required === true) return 'required';
  return key.default === undefined ? (key.otherwise ?? 'none') : code(flow(key.default));
}

function valueOf(type: ValueType): string {
  switch (type.is) {
    case 'text':
      return type.holds;
    case 'name':
      return 'name';
    case 'word':
      return type.words.map(code).join(', ');
    case 'number':
      return `${type.range.min} to ${type.range.max} (${type.range.unit}${type.range.integer ? '' : ', decimals allowed'})`;
    case 'flag':
      return type.refused === undefined ? '`true`, `false`' : '`false`';
    case 'list':
      return `list of ${itemsOf(type.of, type.items)}${type.most === undefined ? '' : `, at most ${type.most}`}`;
    case 'stages':
      return `list of ${type.noun === 'step' ? 'steps' : 'boxes'}`;
    case 'variables':
    case 'parameters':
    case 'mapping':
    case 'section':
    case 'variants':
      return 'mapping';
  }
}

function itemsOf(type: ValueType, called: string | undefined): string {
  return type.is === 'mapping' ? code(`{${Object.keys(type.table.keys).join(', ')}}`) : (called ?? 'mappings');
}

/** A value as YAML writes it on one line. */
function flow(value: Json): string {
  if (Array.isArray(value)) return `[${value.map((each: Json) => flow(each)).join(', ')}]`;
  if (typeof value === 'object' && value !== null) {
    return `{ ${Object.entries(value)
      .map(([key, each]) => `${key}: ${flow(each as Json)}`)
      .join(', ')} }`;
  }
  // A text that YAML would read as something else is put in quotes.
  return typeof value === 'string' && !/^[A-Za-z./-][\w./-]*$/.test(value) ? JSON.stringify(value) : String(value);
}

function code(text: string): string {
  return `\`${text}\``;
}

function cells(texts: readonly string[]): string {
  return `| ${texts.map((text) => text.replaceAll('|', '\\|')).join(' | ')} |`;
}

/** Writes the tables of keys in docs/reference/spec.md; a test keeps the file equal to them. */
import { writeDurationMs } from '../../units/duration.ts';
import { plainKey } from './reader.ts';
import { AGENT, LLM } from './agent-table.ts';
import { APPROVAL } from './approval-table.ts';
import { MOCK } from './mock-table.ts';
import { otherKeys } from './other-keys.ts';
import { SANDBOX } from './sandbox-table.ts';
import { SKILL } from './skill-table.ts';
import { PART, PIPELINE, SPEC, WORKFLOW } from './spec-table.ts';
import { WAIT } from './wait-table.ts';
import { WORKSPACE } from './workspace-table.ts';
import { STAGE } from './stage-table.ts';
import type { Json } from './json.ts';
import type { Key, MappingTable, ValueType } from './table.ts';

/** The tables that have a section of their own in the docs, by the name in its marker. */
const SECTIONS: Readonly<Record<string, MappingTable>> = {
  spec: SPEC,
  workflow: WORKFLOW,
  pipeline: PIPELINE,
  part: PART,
  stage: STAGE,
  approval: APPROVAL,
  wait: WAIT,
  workspace: WORKSPACE,
  mock: MOCK,
  agent: AGENT,
  llm: LLM,
  skill: SKILL,
  sandbox: SANDBOX,
};

const HEAD = ['| key | value | default | example | |', '|---|---|---|---|---|'];

/** The place of the list of mistaken keys. */
const MISTAKES = /(<!-- mistaken keys -->\n)[^]*?(<!-- end -->)/;

/** Returns the text with all tables of keys rewritten; a table is between `<!-- keys: stage -->` and `<!-- end -->`. */
export function writeTables(text: string): string {
  const missing = new Set(Object.keys(SECTIONS));
  const written = text.replace(
    /(<!-- keys: (\w+) -->\n)[^]*?(<!-- end -->)/g,
    (_all, begin: string, name: string, end: string) => {
      const table = SECTIONS[name];
      if (table === undefined || !missing.delete(name))
        throw new Error(`docs/reference/spec.md has a marker for ${name}, which is not a table or appears twice`);
      return `${begin}${[...HEAD, ...rowsOf(table, '')].join('\n')}\n${end}`;
    },
  );
  if (missing.size > 0)
    throw new Error(
      `docs/reference/spec.md has no place for the keys of ${[...missing].join(', ')}: write <!-- keys: … --> and <!-- end -->`,
    );
  if (!MISTAKES.test(written))
    throw new Error(
      'docs/reference/spec.md has no place for keys that are mistakes: write <!-- mistaken keys --> and <!-- end -->',
    );
  return written.replace(
    MISTAKES,
    (_all, begin: string, end: string) => `${begin}${[...MISTAKES_HEAD, ...mistakes()].join('\n')}\n${end}`,
  );
}

const MISTAKES_HEAD = ['| in | instead of | write |', '|---|---|---|'];

function mistakes(): readonly string[] {
  const seen = new Set<MappingTable>();
  const listed = new Set<MappingTable['misplaced']>();
  const of = (name: string, table: MappingTable): readonly string[] => {
    if (seen.has(table)) return [];
    seen.add(table);
    // Variants of a mapping share these keys.
    const isListed = table.misplaced !== undefined && listed.has(table.misplaced);
    listed.add(table.misplaced);
    return [
      ...Object.entries(table.keys).flatMap(([key, { mistaken = [] }]) =>
        mistaken.length === 0 ? [] : [cells([name, mistaken.map(code).join(', '), code(key)])],
      ),
      ...(isListed ? [] : misplacements(table)).map(([owner, keys]) =>
        cells([name, keys.map(code).join(', '), `it belongs to ${owner}`]),
      ),
      ...(isListed ? [] : refusals(table)).map(([remedy, keys]) =>
        // A box lacks these keys, but a step has them.
        cells([
          keys.some((key) => key in table.keys) ? 'a box' : name,
          keys.map(code).join(', '),
          `nothing: ${remedy}`,
        ]),
      ),
      ...Object.entries(table.keys).flatMap(([key, { type }]) =>
        tablesOf(type).flatMap((inner) => of(type.is === 'stages' ? 'a step or box' : code(key), inner)),
      ),
    ];
  };
  return of('the top level', SPEC);
}

/** Lists keys of other mappings, by the name of their mapping. */
function misplacements(table: MappingTable): readonly (readonly [string, readonly string[]])[] {
  const { misplaced, meant, unsupported } = otherKeys(table);
  const byOwner = new Map<string, string[]>();
  for (const [word, { key, owner }] of misplaced)
    if (word === plainKey(key) && !meant.has(word) && !unsupported.has(word))
      byOwner.set(owner, [...(byOwner.get(owner) ?? []), key]);
  return [...byOwner];
}

/** Lists rejected keys, by their remedy. */
function refusals({ unsupported = {} }: MappingTable): readonly (readonly [string, readonly string[]])[] {
  const byRemedy = new Map<string, string[]>();
  for (const [key, { severity, remedy }] of Object.entries(unsupported))
    if (severity === 'error') byRemedy.set(remedy, [...(byRemedy.get(remedy) ?? []), key]);
  return [...byRemedy];
}

function tablesOf(type: ValueType): readonly MappingTable[] {
  if (type.is === 'list') return tablesOf(type.of);
  if (type.is === 'variants' || type.is === 'forms') return Object.values(type.tables);
  return 'table' in type ? [type.table] : [];
}

function rowsOf({ keys }: MappingTable, prefix: string): readonly string[] {
  return Object.entries(keys).flatMap(([name, key]) => [
    row(`${prefix}${name}`, key, alternatives(keys, key)),
    ...rowsBelow(key.type, `${prefix}${name}`),
  ]);
}

/** Returns the rows of a mapping without a section of its own. */
function rowsBelow(type: ValueType, path: string): readonly string[] {
  if (type.is === 'list') return rowsBelow(type.of, `${path}[]`);
  if (type.is === 'parameters') return rowsOf(type.table, `${path}.NAME.`);
  if (type.is === 'choice' || type.is === 'command') return rowsOf(type.table, `${path}.`);
  if (type.is === 'mapping') return Object.values(SECTIONS).includes(type.table) ? [] : rowsOf(type.table, `${path}.`);
  if (type.is === 'forms')
    return Object.entries(type.tables).flatMap(([key, table]) =>
      rowsOf(table, `${path}.`).map((line) => line.replace(' |', ` with \`${key}\` |`)),
    );
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

/** Returns the keys of a group, of which a mapping has exactly one. */
function alternatives(keys: MappingTable['keys'], { group }: Key): readonly string[] {
  return group === undefined ? [] : Object.keys(keys).filter((name) => keys[name]!.group === group);
}

function row(path: string, key: Key, group: readonly string[]): string {
  const kinds = key.kinds === undefined ? [] : [`Kind ${key.kinds.map(code).join(', ')} only.`];
  const besides = key.goesWith === undefined ? [] : [`With ${key.goesWith.map(code).join(', ')} only.`];
  const without = key.excludes === undefined ? [] : [`Not with ${key.excludes.map(code).join(', ')}.`];
  const doc = [key.doc, ...kinds, ...besides, ...without].join(' ');
  return cells([code(path), valueOf(key.type), defaultOf(key, group), code(flow(key.example)), doc]);
}

function defaultOf(key: Key, group: readonly string[]): string {
  if (key.required === true) return 'required';
  if (group.length > 0) return `one of ${group.map(code).join(', ')}`;
  return key.default === undefined ? (key.otherwise ?? 'none') : code(flow(key.default));
}

function valueOf(type: ValueType): string {
  switch (type.is) {
    case 'text':
    case 'json':
      return type.holds;
    case 'name':
      return 'name';
    case 'word':
      return type.words.map(code).join(', ');
    case 'number':
      return `${type.range.min} to ${type.range.max} (${type.range.unit}${type.range.integer ? '' : ', decimals allowed'})`;
    case 'duration':
      return `duration, ${writeDurationMs(type.range.minMs)} to ${writeDurationMs(type.range.maxMs)}`;
    case 'flag':
      return type.refused === undefined ? '`true`, `false`' : '`false`';
    case 'choice':
      return `${type.words.map(code).join(', ')} or a mapping`;
    case 'command':
      return 'text or mapping';
    case 'named-texts':
      return `mapping of names to ${type.holds}, at most ${type.most}`;
    case 'list':
      return `list of ${itemsOf(type.of, type.items)}${type.most === undefined ? '' : `, at most ${type.most}`}`;
    case 'stages':
      return `list of ${type.noun === 'step' ? 'steps' : 'boxes'}`;
    case 'variables':
    case 'parameters':
    case 'mapping':
    case 'section':
    case 'parts':
    case 'variants':
    case 'forms':
      return 'mapping';
  }
}

function itemsOf(type: ValueType, called: string | undefined): string {
  return type.is === 'mapping' ? code(`{${Object.keys(type.table.keys).join(', ')}}`) : (called ?? 'mappings');
}

/** Writes a value as YAML on one line. */
function flow(value: Json): string {
  if (Array.isArray(value)) return `[${value.map((each: Json) => flow(each)).join(', ')}]`;
  if (typeof value === 'object' && value !== null) {
    return `{ ${Object.entries(value)
      .map(([key, each]) => `${key}: ${flow(each as Json)}`)
      .join(', ')} }`;
  }
  // A text that YAML would read as another value needs quotes.
  return typeof value === 'string' && !/^[A-Za-z./-][\w./-]*$/.test(value) ? JSON.stringify(value) : String(value);
}

function code(text: string): string {
  return `\`${text}\``;
}

function cells(texts: readonly string[]): string {
  return `| ${texts.map((text) => text.replaceAll('|', '\\|')).join(' | ')} |`;
}

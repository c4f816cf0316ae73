/** Writes the tables of keys in docs/reference: spec.md, triggers.md, notifications.md and mistaken-keys.md; a test keeps them equal. */
import { writeDurationMs } from '../../units/duration.ts';
import { plainKey } from './reader.ts';
import { AGENT, BUDGET, LLM, SKILLS } from './agent-table.ts';
import { APPROVAL } from './approval-table.ts';
import { otherKeys } from './other-keys.ts';
import { PARAMETER } from './param-table.ts';
import { SANDBOX } from './sandbox-table.ts';
import { SKILL } from './skill-table.ts';
import { PART, PIPELINE, SPEC, WORKFLOW } from './spec-table.ts';
import { WAIT } from './wait-table.ts';
import { WORKSPACE } from './workspace-table.ts';
import { STAGE } from './stage-table.ts';
import { FOLDER, OUTBOX } from './trigger-folder-tables.ts';
import { RECEIVER } from './notify-table.ts';
import { QUEUE } from './trigger-queue-table.ts';
import { SCHEDULE, WEBHOOK } from './trigger-source-tables.ts';
import { TRIGGER } from './trigger-table.ts';
import type { Json } from './json.ts';
import type { FormsType, Key, MappingTable, ValueType } from './table.ts';

/** The tables that have a section of their own in spec.md, by the name in its marker. */
const SPEC_SECTIONS: Readonly<Record<string, MappingTable>> = {
  spec: SPEC,
  params: PARAMETER,
  workflow: WORKFLOW,
  pipeline: PIPELINE,
  part: PART,
  stage: STAGE,
  approval: APPROVAL,
  wait: WAIT,
  workspace: WORKSPACE,
  agent: AGENT,
  budget: BUDGET,
  llm: LLM,
  skill: SKILL,
  sandbox: SANDBOX,
};

/** The same in triggers.md. */
const TRIGGER_SECTIONS: Readonly<Record<string, MappingTable>> = {
  trigger: TRIGGER,
  webhook: WEBHOOK,
  schedule: SCHEDULE,
  folder: FOLDER,
  outbox: OUTBOX,
  queue: QUEUE,
};

/** The same in notifications.md. */
const NOTIFY_SECTIONS: Readonly<Record<string, MappingTable>> = { receiver: RECEIVER };

const SECTIONS = { ...SPEC_SECTIONS, ...TRIGGER_SECTIONS, ...NOTIFY_SECTIONS };

/** The section of the forms of an agent skill. */
const FORMS = 'skills';

const HEAD = ['| key | value | default | meaning |', '|---|---|---|---|'];

/** Returns the text with all tables of keys rewritten; a table is between `<!-- keys: stage -->` and `<!-- end -->`. */
export function writeTables(text: string): string {
  return writeSections(text, 'spec.md', [...Object.keys(SPEC_SECTIONS), FORMS]);
}

/** Like `writeTables`, for the keys of triggers. */
export function writeTriggerTables(text: string): string {
  return writeSections(text, 'triggers.md', Object.keys(TRIGGER_SECTIONS));
}

/** Like `writeTables`, for the keys of receivers. */
export function writeNotifyTables(text: string): string {
  return writeSections(text, 'notifications.md', Object.keys(NOTIFY_SECTIONS));
}

function writeSections(text: string, page: string, names: readonly string[]): string {
  const missing = new Set(names);
  const written = text.replace(
    /(<!-- keys: (\w+) -->\n)[^]*?(<!-- end -->)/g,
    (_all, begin: string, name: string, end: string) => {
      if (!missing.delete(name))
        throw new Error(`docs/reference/${page} has a marker for ${name}, which is not a table or appears twice`);
      const rows = name === FORMS ? formRows(SKILLS.of, 'skills[].') : rowsOf(SECTIONS[name]!, '');
      return `${begin}${[...HEAD, ...rows].join('\n')}\n${end}`;
    },
  );
  if (missing.size > 0)
    throw new Error(
      `docs/reference/${page} has no place for the keys of ${[...missing].join(', ')}: write <!-- keys: … --> and <!-- end -->`,
    );
  return written;
}

/** Returns the text with the list of mistaken keys rewritten. */
export function writeMistakes(text: string): string {
  if (!MISTAKES.test(text))
    throw new Error(
      'docs/reference/mistaken-keys.md has no place for the list: write <!-- mistaken keys --> and <!-- end -->',
    );
  return text.replace(
    MISTAKES,
    (_all, begin: string, end: string) => `${begin}${[...MISTAKES_HEAD, ...new Set(mistakes())].join('\n')}\n${end}`,
  );
}

/** The place of the list of mistaken keys. */
const MISTAKES = /(<!-- mistaken keys -->\n)[^]*?(<!-- end -->)/;

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

function rowsOf(table: MappingTable, prefix: string): readonly string[] {
  const { keys } = table;
  return [
    ...Object.entries(keys).flatMap(([name, key]) =>
      ownerOf(table, name) === undefined
        ? [row(`${prefix}${name}`, key, groupDefault(keys, name)), ...rowsBelow(key.type, `${prefix}${name}`)]
        : [],
    ),
    ...OWNERS.flatMap((owner) => {
      const shared = Object.keys(keys).filter((name) => ownerOf(table, name) === owner);
      const names = shared.map((name) => code(`${prefix}${name}`)).join(', ');
      return shared.length === 0 ? [] : [cells([names, `as in ${owner.link}`, '', ''])];
    }),
  ];
}

/** Tables whose keys other mappings have too; the docs describe a shared key only here. */
const OWNERS: readonly { readonly table: MappingTable; readonly link: string }[] = [
  { table: SPEC, link: '[the top level](#top-level)' },
  { table: STAGE, link: '[a stage](#a-stage-a-step-or-a-box)' },
];

/** Returns the owner of a key of another table. */
function ownerOf(table: MappingTable, name: string): (typeof OWNERS)[number] | undefined {
  if (OWNERS.some((owner) => owner.table === table)) return undefined;
  const { as, doc } = table.keys[name]!;
  return OWNERS.find(({ table: { keys } }) => keys[name]?.as === as && keys[name]?.doc === doc);
}

/** Returns the rows of a mapping without a section of its own. */
function rowsBelow(type: ValueType, path: string): readonly string[] {
  if (type.is === 'list') return rowsBelow(type.of, `${path}[]`);
  if (type.is === 'choice' || type.is === 'command') return rowsOf(type.table, `${path}.`);
  if (type.is === 'mapping') return Object.values(SECTIONS).includes(type.table) ? [] : rowsOf(type.table, `${path}.`);
  if (type.is !== 'variants') return [];
  const variants = Object.entries(type.tables);
  const words = variants.map(([word]) => code(word)).join(', ');
  return [
    cells([code(`${path}.${type.by.key}`), words, 'required', type.by.doc]),
    ...variants.flatMap(([word, table]) =>
      rowsOf(table, `${path}.`).map((line) => line.replace(' |', ` of \`${word}\` |`)),
    ),
  ];
}

function formRows({ tables }: FormsType, prefix: string): readonly string[] {
  return Object.entries(tables).flatMap(([key, table]) =>
    rowsOf(table, prefix).map((line) => line.replace(' |', ` with \`${key}\` |`)),
  );
}

/** Returns the default of a key of a group, of which a mapping has exactly one key; the first one lists the others. */
function groupDefault(keys: MappingTable['keys'], name: string): string | null {
  const { group } = keys[name]!;
  if (group === undefined) return null;
  const [first = '', ...others] = Object.keys(keys).filter((each) => keys[each]!.group === group);
  return name === first ? `one of ${[first, ...others].map(code).join(', ')}` : `see ${code(first)}`;
}

function row(path: string, key: Key, ofGroup: string | null): string {
  const kinds = key.kinds === undefined ? [] : [`Kind ${key.kinds.map(code).join(', ')}.`];
  const besides = isOfAllWork(key) ? [] : [`For ${key.goesWith!.map(code).join(', ')}.`];
  const without = key.excludes === undefined ? [] : [`Not with ${key.excludes.map(code).join(', ')}.`];
  // The key is the link, so that its meaning is short.
  const [link = '', target] = / See \[[^\]]*\]\(([^)]*)\)\./.exec(key.doc) ?? [];
  const name = target === undefined ? code(path) : `[${code(path)}](${target})`;
  const doc = [key.doc.replace(link, ''), ...kinds, ...besides, ...without].join(' ');
  return cells([name, valueOf(key.type), ofGroup ?? defaultOf(key), doc]);
}

function isOfAllWork({ goesWith }: Key): boolean {
  return (
    goesWith === undefined ||
    Object.entries(STAGE.keys).every(([name, key]: [string, Key]) => key.group !== 'work' || goesWith.includes(name))
  );
}

function defaultOf(key: Key): string {
  if (key.required === true) return 'required';
  return key.default === undefined ? (key.otherwise ?? '') : code(flow(key.default));
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
      return `${type.range.min} to ${type.range.max} (${type.range.unit})`;
    case 'duration':
      return `duration, ${writeDurationMs(type.range.minMs)} to ${writeDurationMs(type.range.maxMs)}`;
    case 'flag':
      return type.refused === undefined ? 'boolean' : '`false`';
    case 'choice':
      return `${type.holds ?? type.words.map(code).join(', ')} or a mapping`;
    case 'command':
      return 'text or mapping';
    case 'named-texts':
      return `mapping of names to ${type.holds}, at most ${type.most}`;
    case 'param-texts':
      return `mapping of parameters to texts, at most ${type.most}`;
    case 'list':
      return `list of ${type.items ?? 'mappings'}${type.most === undefined ? '' : `, at most ${type.most}`}`;
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

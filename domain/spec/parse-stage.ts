import type { Problems } from './problems.ts';
import { type MapReader, readList, readMap, readName, readNumber, readPlainText, readText, type UnsupportedKey } from './reader.ts';
import { readEnv, readSandbox } from './parse-sandbox.ts';
import type { InputSpec, OutputSpec, RunSpec, StageSpec } from './spec.ts';
import { type Located, quote, type TreeNode } from './tree.ts';

const SECOND_MS = 1_000;
const MIB = 1024 * 1024;

/** Ranges that docs/spec.md states. */
const TIMEOUT = { min: 0.001, max: 7 * 24 * 3_600, integer: false, unit: 'seconds' };
const ATTEMPTS = { min: 1, max: 100, integer: true, unit: 'attempts in all' };
const BACKOFF = { min: 0, max: 24 * 3_600, integer: false, unit: 'seconds' };
const OUTPUT_MB = { min: 1, max: 16 * 1024, integer: true, unit: 'MiB' };

const INPUT_PATH = '/workspace/input';
const OUTPUT_PATH = '/workspace/output';

const UNSUPPORTED: Readonly<Record<string, UnsupportedKey>> = {
  prompt: { severity: 'error', message: 'not supported yet: `prompt`; stages are commands', remedy: 'write `run: {program, args}` instead' },
  skills: { severity: 'error', message: 'not supported yet: `skills`; stages are commands', remedy: 'take it out' },
  llm: { severity: 'warning', message: '`llm` has no effect yet: stages are commands', remedy: 'take it out' },
  mode: { severity: 'error', message: 'not supported yet: `mode` of a step', remedy: 'take it out: a step ends when its command does' },
};

/** Reads a workflow's step or a pipeline's box; null when it is no mapping. */
export function readStage(node: TreeNode, noun: 'step' | 'box', index: number, problems: Problems): StageSpec | null {
  const place = readMap(node, `${noun} ${index + 1}`, problems);
  if (place === null) return null;
  const name = readName(place.required('name'), `\`name\` of ${place.what}`, problems);
  const what = name === null ? place.what : `${noun} ${quote(name.value)}`;
  place.what = what;
  // An agent's box has no command; the one report about its prompt is enough.
  const run =
    place.has('run') || !asksForAgent(node) ? readRun(place.required('run', 'run: { program: sh, args: [-c, …] }'), `\`run\` of ${what}`, problems) : null;
  const stage: StageSpec = {
    // A name that cannot be used is still told from others by its place.
    name: name ?? { value: `#${index + 1}`, at: place.at },
    run,
    dependsOn: noun === 'step' ? texts(place, 'depends_on', what) : [],
    env: readEnv(place.optional('env'), `\`env\` of ${what}`, problems),
    inputs: readList(place.optional('inputs'), `\`inputs\` of ${what}`, problems).flatMap((item) => readInput(item, what, problems) ?? []),
    outputs: readList(place.optional('outputs'), `\`outputs\` of ${what}`, problems).flatMap((item) => readOutput(item, what, problems) ?? []),
    outputFile: readPlainText(place.optional('output_file'), `\`output_file\` of ${what}`, problems),
    timeoutMs: milliseconds(readNumber(place.optional('timeout_secs'), `\`timeout_secs\` of ${what}`, TIMEOUT, problems)),
    retry: readRetry(place.optional('retry'), what, problems),
    maxOutputBytes: scaled(readNumber(place.optional('max_output_mb'), `\`max_output_mb\` of ${what}`, OUTPUT_MB, problems), MIB),
    sandbox: readSandbox(place.optional('sandbox'), `\`sandbox\` of ${what}`, problems),
  };
  place.finish(UNSUPPORTED);
  return stage;
}

function asksForAgent(node: TreeNode): boolean {
  return node.kind === 'map' && node.entries.has('prompt');
}

function readRun(node: TreeNode | null, what: string, problems: Problems): RunSpec | null {
  const map = readMap(node, what, problems, (text) => `{ program: sh, args: [-c, ${JSON.stringify(text)}] }`);
  if (map === null) return null;
  const program = readText(map.required('program'), `\`program\` of ${what}`, problems);
  if (program?.value === '') problems.error('spec/bad-value', program.at, `\`program\` of ${what} is empty`, 'name a program of the guest, such as sh');
  const args = readList(map.optional('args'), `\`args\` of ${what}`, problems).flatMap(
    (item) => readText(item, `an argument of ${what}`, problems, true) ?? [],
  );
  const stdinFrom = readText(map.optional('stdin_from'), `\`stdin_from\` of ${what}`, problems);
  const cwd = readPlainText(map.optional('cwd'), `\`cwd\` of ${what}`, problems);
  map.finish();
  return program === null ? null : { program, args, stdinFrom, cwd };
}

function readRetry(node: TreeNode | null, what: string, problems: Problems): StageSpec['retry'] {
  const map = readMap(node, `\`retry\` of ${what}`, problems);
  if (map === null) return null;
  const maxAttempts = readNumber(map.optional('max_attempts'), `\`max_attempts\` of ${what}`, ATTEMPTS, problems);
  const backoffMs = milliseconds(readNumber(map.optional('backoff_secs'), `\`backoff_secs\` of ${what}`, BACKOFF, problems));
  map.finish();
  return { maxAttempts, backoffMs };
}

function readInput(node: TreeNode, what: string, problems: Problems): InputSpec | null {
  const map = readMap(node, `an input of ${what}`, problems, (text) => `{ from: ${text} }`);
  if (map === null) return null;
  const from = readText(map.required('from'), `\`from\` of an input of ${what}`, problems);
  const guestPath = readGuestPath(map, INPUT_PATH);
  map.finish();
  return from === null ? null : { from, guestPath };
}

function readOutput(node: TreeNode, what: string, problems: Problems): OutputSpec | null {
  const map = readMap(node, `an output of ${what}`, problems, (text) => (text.startsWith('/') ? `{ name: data, guest: ${text} }` : `{ name: ${text} }`));
  if (map === null) return null;
  const name = readName(map.required('name'), `\`name\` of an output of ${what}`, problems);
  const guestPath = readGuestPath(map, OUTPUT_PATH);
  map.finish();
  return name === null ? null : { name, guestPath };
}

function readGuestPath(map: MapReader, fallback: string): Located<string> {
  return readPlainText(map.optional('guest'), `\`guest\` of ${map.what}`, map.problems) ?? { value: fallback, at: map.at };
}

function texts(map: MapReader, key: string, what: string): readonly Located<string>[] {
  return readList(map.optional(key), `\`${key}\` of ${what}`, map.problems).flatMap(
    (item) => readText(item, `an item of \`${key}\` of ${what}`, map.problems) ?? [],
  );
}

function milliseconds(seconds: number | null): number | null {
  return scaled(seconds, SECOND_MS);
}

function scaled(value: number | null, unit: number): number | null {
  return value === null ? null : Math.round(value * unit);
}

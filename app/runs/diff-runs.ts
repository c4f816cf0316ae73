/** Compares two runs. Their ids, hosts, times and attempts may always differ, so they do not count. */
import { findDifferingStages } from '../../domain/pipeline/reuse.ts';
import type { DataRef } from '../../domain/plan/plan.ts';
import { toCanonicalJson } from '../../domain/units/canonical-json.ts';
import type { StageView } from '../../store/run-view.ts';
import { type DiffLine, compareLines } from './line-diff.ts';
import type { RecordedRun } from './recorded-run.ts';
import { valueAt } from '../../domain/units/mapping.ts';

/** The value of the first run, then the value of the second. */
export type Both<T> = readonly [T, T];

export interface RunDiff {
  readonly runs: Both<string>;
  readonly isSame: boolean;
  readonly states: Both<string>;
  readonly tookMs: Both<number | null>;
  /** Params that differ; null: the params of one run were not recorded. */
  readonly params: readonly { readonly name: string; readonly values: Both<string | null> }[] | null;
  readonly isSameInput: boolean;
  /** Texts of the specs, null: one was not recorded, or they differ in too many lines. Empty: they are the same. */
  readonly spec: readonly DiffLine[] | null;
  /** Keys of the plan as a whole that differ, such as `output` and `maxParallel`. */
  readonly plan: readonly string[];
  /** Stages that differ in state, plan or outputs, in the order of the plans. */
  readonly stages: readonly StageDiff[];
}

export interface StageDiff {
  readonly id: string;
  /** Null: the run does not have the stage. */
  readonly states: Both<string | null>;
  readonly exitCodes: Both<number | null>;
  readonly tookMs: Both<number | null>;
  /** Keys of its plan that differ. */
  readonly keys: readonly string[];
  readonly outputs: readonly OutputDiff[];
}

export interface OutputDiff {
  /** Null: the stage's own output. */
  readonly name: string | null;
  readonly refs: Both<DataRef | null>;
  /**
   * The changed lines between two small texts. Null: an output is not a small text, or the texts differ in too many
   * lines.
   */
  readonly lines: readonly DiffLine[] | null;
}

/** @param textOf  returns the text of an output that is a small text, else null */
export async function compareRuns(
  one: RecordedRun,
  other: RecordedRun,
  textOf: (ref: DataRef) => Promise<string | null>,
): Promise<RunDiff> {
  const keys = new Map([...findDifferingStages(one, other), ...findDifferingStages(other, one)]);
  const names = [...new Set([...one.plan.stages, ...other.plan.stages].map(({ id }) => id))];
  const stages: StageDiff[] = [];
  for (const id of names) {
    const diff = {
      ...standingsOf(id, one, other),
      keys: keys.get(id) ?? [],
      outputs: await outputsOf(id, one, other, textOf),
    };
    if (diff.states[0] !== diff.states[1] || keys.has(id) || diff.outputs.length > 0) stages.push(diff);
  }
  const params = paramsOf(one, other);
  const spec = specOf(one, other);
  const isSameInput = toCanonicalJson(one.input) === toCanonicalJson(other.input);
  const plan = WHOLE.filter((key) => toCanonicalJson(one.plan[key]) !== toCanonicalJson(other.plan[key]));
  const states: Both<string> = [one.view.state, other.view.state];
  return {
    runs: [one.runId, other.runId],
    isSame:
      states[0] === states[1] &&
      isSameInput &&
      plan.length === 0 &&
      stages.length === 0 &&
      (params === null || params.length === 0) &&
      isSameSpec(one, other),
    states,
    tookMs: [tookMs(one), tookMs(other)],
    params,
    isSameInput,
    spec,
    plan,
    stages,
  };
}

const WHOLE = ['name', 'kind', 'output', 'maxParallel', 'hostVariables'] as const;

/** True also if one spec was not recorded: then the comparison of the plans decides. */
function isSameSpec({ source: one }: RecordedRun, { source: other }: RecordedRun): boolean {
  const [text, otherText] = [one?.text ?? null, other?.text ?? null];
  return text === null || otherText === null || text === otherText;
}

function tookMs({ view: { startedAtMs, finishedAtMs } }: RecordedRun): number | null {
  return startedAtMs === null || finishedAtMs === null ? null : finishedAtMs - startedAtMs;
}

function standingsOf(id: string, one: RecordedRun, other: RecordedRun): Omit<StageDiff, 'keys' | 'outputs'> {
  const [first, second] = [one, other].map(({ view }) => view.stages.find((stage) => stage.id === id));
  const readBoth = <T>(of: (stage: StageView) => T): Both<T | null> => [
    first === undefined ? null : of(first),
    second === undefined ? null : of(second),
  ];
  return {
    id,
    states: readBoth(({ state }) => state),
    exitCodes: readBoth(({ exitCode }) => exitCode),
    tookMs: readBoth(({ durationMs }) => durationMs),
  };
}

async function outputsOf(
  id: string,
  one: RecordedRun,
  other: RecordedRun,
  textOf: (ref: DataRef) => Promise<string | null>,
): Promise<readonly OutputDiff[]> {
  const [first, second] = [one, other].map(({ ends }) => ends.get(id));
  const names = new Set([...Object.keys(first?.outputs ?? {}), ...Object.keys(second?.outputs ?? {})]);
  const pairs: OutputDiff[] = [
    { name: null, refs: [first?.output ?? null, second?.output ?? null], lines: null },
    ...[...names].map((name): OutputDiff => {
      return {
        name,
        refs: [valueAt(first?.outputs ?? {}, name) ?? null, valueAt(second?.outputs ?? {}, name) ?? null],
        lines: null,
      };
    }),
  ];
  const differing = pairs.filter(({ refs: [from, to] }) => from?.sha256 !== to?.sha256);
  return Promise.all(
    differing.map(async (output) => {
      const [from, to] = output.refs;
      if (output.name !== null || from === null || to === null) return output;
      const [text, otherText] = [await textOf(from), await textOf(to)];
      return { ...output, lines: text === null || otherText === null ? null : compareLines(text, otherText) };
    }),
  );
}

function paramsOf({ source: one }: RecordedRun, { source: other }: RecordedRun): RunDiff['params'] {
  if (one === null || other === null) return null;
  return [...new Set([...Object.keys(one.params), ...Object.keys(other.params)])].flatMap((name) => {
    const values: Both<string | null> = [valueAt(one.params, name) ?? null, valueAt(other.params, name) ?? null];
    return values[0] === values[1] ? [] : [{ name, values }];
  });
}

function specOf({ source: one }: RecordedRun, { source: other }: RecordedRun): RunDiff['spec'] {
  const [text, otherText] = [one?.text ?? null, other?.text ?? null];
  return text === null || otherText === null ? null : compareLines(text, otherText);
}

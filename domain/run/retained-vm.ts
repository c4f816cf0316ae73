/** VMs that failed stages leave for a look: what stands of them in their run directory, and what people are told. */
import { writeDurationMs } from '../units/duration.ts';
import { parseExecKey } from './attempt.ts';
import { formatStageName } from './instance.ts';
import { quoteRunId } from './run-id.ts';
import { createMapping } from '../units/mapping.ts';

/** What a worker notes of such a VM with its keeper. */
export interface RetentionNote {
  readonly stage: string;
  /** Of the attempt that failed. */
  readonly execKey: string;
  readonly retainedAtMs: number;
  /** Variables of its image, for commands that are started in it. */
  readonly env: Readonly<Record<string, string>>;
}

export interface Retention extends RetentionNote {
  readonly untilMs: number;
}

/** What a `retained.json` says; null for anything else. */
export function retentionOf(file: unknown): Retention | null {
  const { untilMs, note } = fieldsOf(file);
  const { stage, execKey, retainedAtMs, env } = fieldsOf(note);
  if (typeof untilMs !== 'number' || typeof stage !== 'string' || typeof execKey !== 'string') return null;
  return {
    stage,
    execKey,
    retainedAtMs: typeof retainedAtMs === 'number' ? retainedAtMs : 0,
    env: createMapping(
      Object.entries(fieldsOf(env)).filter((variable): variable is [string, string] => typeof variable[1] === 'string'),
    ),
    untilMs,
  };
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Readonly<Record<string, unknown>>) : {};
}

/** As commands take it: the stage, or one of its items. */
export function stageOfRetained({ stage, execKey }: Pick<RetentionNote, 'stage' | 'execKey'>): string {
  return formatStageName(stage, parseExecKey(execKey)?.instance ?? []);
}

type StageOfVm = Pick<RetentionNote, 'stage' | 'execKey'>;

/** Behind what a failure says: the VM is the stage's own. */
export function describeRetainedVm(runId: string, of: StageOfVm, untilMs: number): string {
  return `its VM is left until ${timeText(untilMs)}: ${commands(runId, of)}`;
}

/** The same of a VM that other stages use, too. */
export function describeSharedVm(runId: string, of: StageOfVm, forMs: number): string {
  return `its VM is left for ${writeDurationMs(forMs)} once all of its stages have ended: ${commands(runId, of)}`;
}

function commands(runId: string, of: StageOfVm): string {
  const [run, stage] = [quoteRunId(runId), quoteForShell(stageOfRetained(of))];
  return `look with \`voidbox exec ${run} ${stage} -- COMMAND\`, end it with \`voidbox release ${run} ${stage}\``;
}

/** The second, in UTC. */
function timeText(atMs: number): string {
  return new Date(atMs).toISOString().replace(/\.\d+Z$/, 'Z');
}

/** A shell reads brackets as a pattern. */
function quoteForShell(word: string): string {
  return /^[A-Za-z0-9._%@+-]+$/.test(word) ? word : `"${word}"`;
}

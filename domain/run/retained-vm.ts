/** VMs that failed stages leave for inspection: the record in their run directory, and the texts for people. */
import { writeDurationMs } from '../units/duration.ts';
import { parseExecKey } from './attempt.ts';
import { formatStageName } from './instance.ts';
import { quoteRunId } from './run-id.ts';
import { createMapping } from '../units/mapping.ts';

/** The note that a worker stores with the keeper of such a VM. */
export interface RetentionNote {
  readonly stage: string;
  /** The exec key of the failed attempt. */
  readonly execKey: string;
  readonly retainedAtMs: number;
  /** Variables of its image, for commands that are started in it. */
  readonly env: Readonly<Record<string, string>>;
}

export interface Retention extends RetentionNote {
  readonly untilMs: number;
}

/** Reads the content of a `retained.json`; null for anything else. */
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

/** The name that commands accept: the stage, or one of its items. */
export function stageOfRetained({ stage, execKey }: Pick<RetentionNote, 'stage' | 'execKey'>): string {
  return formatStageName(stage, parseExecKey(execKey)?.instance ?? []);
}

type StageOfVm = Pick<RetentionNote, 'stage' | 'execKey'>;

/** The text after the message of a failure, if no other stage uses the VM. */
export function describeRetainedVm(runId: string, of: StageOfVm, untilMs: number): string {
  return `its VM is left until ${timeText(untilMs)}: ${commands(runId, of)}`;
}

/** The same text if other stages use the VM too. */
export function describeSharedVm(runId: string, of: StageOfVm, forMs: number): string {
  return `its VM is left for ${writeDurationMs(forMs)} once all of its stages have ended: ${commands(runId, of)}`;
}

function commands(runId: string, of: StageOfVm): string {
  const [run, stage] = [quoteRunId(runId), quoteForShell(stageOfRetained(of))];
  return `look with \`voidbox exec ${run} ${stage} -- COMMAND\`, end it with \`voidbox release ${run} ${stage}\``;
}

/** Formats a time to the second, in UTC. */
function timeText(atMs: number): string {
  return new Date(atMs).toISOString().replace(/\.\d+Z$/, 'Z');
}

/** Quotes a word for a shell, which reads brackets as a pattern. */
function quoteForShell(word: string): string {
  return /^[A-Za-z0-9._%@+-]+$/.test(word) ? word : `"${word}"`;
}

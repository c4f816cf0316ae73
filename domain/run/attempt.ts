/**
 * The name of one attempt of one stage, and the exec keys of its commands. A key is the identity of a command: the same
 * key never runs twice. Code works with the fields; the text is for keepers, stores and people.
 */
import { type InstancePath, formatInstance, isPlanId, parseInstance, PLAN_ID, formatStageName } from './instance.ts';
import { quote } from '../units/quote.ts';

export interface AttemptName {
  /** Its id in the plan of the innermost part, or of the run. */
  readonly stage: string;
  readonly instance: InstancePath;
  /** From 1. */
  readonly attempt: number;
}

export interface ExecName extends AttemptName {
  /** Which command of the attempt, from 1. */
  readonly command: number;
}

const MOST_ATTEMPT = 999_999_999;
/** Commands of one attempt. */
export const MOST_COMMANDS = 9_999;

/**
 * Numbers of commands that prepare an attempt or collect its results, at the end of the range. The first command is the
 * stage's own; the commands of an agent follow it.
 */
export const SERVICE_COMMANDS = {
  unpack: MOST_COMMANDS - 1,
  collect: MOST_COMMANDS,
  restore: MOST_COMMANDS - 10,
} as const;

/** Before those: commands that follow the session file of an agent's first command, second command and so on. */
export const FIRST_FOLLOWER = MOST_COMMANDS - 9;

/** Commands that save the progress of an agent have numbers from this one. */
export const FIRST_SAVE = 5_000;
export const MOST_SAVE_COMMANDS = 4_900;

/** The longest exec key that there is: stage, instance, attempt, command. */
export const EXEC_KEY_BYTES = 64 + 1 + 120 + 1 + 9 + 1 + 4;

const EXEC_KEY = new RegExp(`^(${PLAN_ID})/([A-Za-z0-9._~-]+)/([1-9]\\d{0,8})(?:/([1-9]\\d{0,3}))?$`);

/**
 * `<stage>/<instance>/<attempt>`: also the exec key of the attempt's first command. @throws RangeError for an invalid
 * attempt
 */
export function formatAttempt({ stage, instance, attempt }: AttemptName): string {
  if (!isPlanId(stage)) throw new RangeError(`${quote(stage)} is not the id of a stage`);
  if (!isCount(attempt, MOST_ATTEMPT))
    throw new RangeError(`stage ${stage} has no attempt ${attempt}: attempts are numbered from 1 to ${MOST_ATTEMPT}`);
  return `${stage}/${formatInstance(instance)}/${attempt}`;
}

/** The attempt's text, with `/n` for its second command and later ones. @throws RangeError for an invalid command */
export function formatExecKey(name: ExecName): string {
  const { command } = name;
  if (!isCount(command, MOST_COMMANDS))
    throw new RangeError(
      `an attempt of stage ${name.stage} has no command ${command}: commands are numbered from 1 to ${MOST_COMMANDS}`,
    );
  return command === 1 ? formatAttempt(name) : `${formatAttempt(name)}/${command}`;
}

/** The exec key of a command that serves the stage's work. @throws RangeError for a text that is not an exec key */
export function attemptCommand(execKey: string, command: keyof typeof SERVICE_COMMANDS): string {
  const name = parseExecKey(execKey);
  if (name === null) throw new RangeError(`${quote(execKey)} is no exec key`);
  return formatExecKey({ ...name, command: SERVICE_COMMANDS[command] });
}

/** @param number  from 1 @throws RangeError for a text that is not an exec key, and after the last number */
export function saveCommand(execKey: string, number: number): string {
  const name = parseExecKey(execKey);
  if (name === null) throw new RangeError(`${quote(execKey)} is no exec key`);
  if (!isCount(number, MOST_SAVE_COMMANDS))
    throw new RangeError(`its saves have taken ${MOST_SAVE_COMMANDS} commands, and there are no more for an attempt`);
  return formatExecKey({ ...name, command: FIRST_SAVE + number - 1 });
}

/** Reads an exec key. Null for a text that is not an exec key. */
export function parseExecKey(text: string): ExecName | null {
  const match = EXEC_KEY.exec(text);
  const instance = match === null ? null : parseInstance(match[2]!);
  if (match === null || instance === null) return null;
  const command = match[4] === undefined ? 1 : Number(match[4]);
  // The first command has no number, so that no two texts mean the same command.
  if (match[4] === '1') return null;
  return { stage: match[1]!, instance, attempt: Number(match[3]), command };
}

function isCount(value: number, most: number): boolean {
  return Number.isSafeInteger(value) && value >= 1 && value <= most;
}

/** Returns the stage of an event, or the item of it, as people read it: `resize[3]`. */
export function stageNameOf({ stage, execKey }: { readonly stage: string; readonly execKey: string }): string {
  return formatStageName(stage, parseExecKey(execKey)?.instance ?? []);
}

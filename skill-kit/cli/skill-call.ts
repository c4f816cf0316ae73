/** One call of a skill's command line, and what it answers. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { ReferenceLoader, SkillDefinition } from '../../domain/step-machine/definition.ts';
import type { SessionResult } from '../../domain/step-machine/result.ts';
import type { Flags } from './flags.ts';
import type { Inputs } from './inputs.ts';
import type { CommandIo } from './io.ts';

export interface SkillCall {
  readonly definition: SkillDefinition;
  readonly flags: Flags;
  readonly inputs: Inputs;
  readonly io: CommandIo;
  readonly refs: ReferenceLoader;
  /** Named on the command line, to be run without its dispatcher. */
  readonly subskill: string | undefined;
}

export interface Outcome {
  readonly stdout: string;
  /** Goes to stderr and makes the exit code 1. */
  readonly failure: string | null;
}

/**
 * Returns the message of an error that the author's code threw, or of a failed session. A rejected answer is not a
 * failure.
 */
export function failureOf(result: SessionResult): string | null {
  if (result.kind !== 'error' || (result.error !== 'action' && result.error !== 'failed')) return null;
  const { step, message } = result;
  // Messages of callbacks seldom name the step.
  return step === '' || message.includes(`"${step}"`) ? message : `step "${step}": ${message}`;
}

/** A skill with nowhere to redirect to leaves redirects to its caller. */
export function followsRedirects({ subskills, topics }: SkillDefinition): boolean {
  return subskills !== undefined || topics !== undefined;
}

/** Writes the engine's warnings to standard error. */
export function createWarn(io: CommandIo): (message: string) => void {
  return (message) => io.stderr(`[skill-kit] ${message}\n`);
}

/**
 * Returns the hash of the skill's script, which is all of its code if it is bundled. Null if the script cannot be read.
 */
export function codeHashOf({ script }: CommandIo): string | null {
  if (script === null) return null;
  try {
    return createHash('sha256').update(readFileSync(script)).digest('hex');
  } catch {
    return null;
  }
}

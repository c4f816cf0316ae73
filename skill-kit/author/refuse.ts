/**
 * Builders throw to reject an author's mistake. While lint loads a skill, they record the mistake and continue, so that
 * one run shows every mistake. The recorder has a global name, because a bundled skill has its own copy of this file.
 */
import type { SkillDefinition } from '../../domain/step-machine/definition.ts';

export interface Refusal {
  readonly error: Error;
  /** The definition that was built despite the mistake. */
  readonly definition: SkillDefinition | null;
}

const NOTED = Symbol.for('voidbox.skill-refusals');

interface NotingGlobal {
  [NOTED]?: (refusal: Refusal) => void;
}

/** A mistake in one step, which is known by its name. Lint knows it by the name of the class. */
export class StepDefinitionError extends Error {
  readonly step: string;

  constructor(step: string, message: string) {
    super(message);
    this.name = 'StepDefinitionError';
    this.step = step;
  }
}

/** @throws the error, unless mistakes are recorded; then the caller continues as well as it can */
export function refuse(error: Error, definition: SkillDefinition | null = null): void {
  const note = (globalThis as NotingGlobal)[NOTED];
  if (note === undefined) throw error;
  note({ error, definition });
}

let turn: Promise<unknown> = Promise.resolve();

/** Loads come one after another, for what they note is not told apart. @throws what `load` throws */
export async function collectRefusals<T>(load: (noted: readonly Refusal[]) => Promise<T>): Promise<T> {
  const before = turn;
  const mine = (async () => {
    await before.catch(() => undefined);
    const noted: Refusal[] = [];
    (globalThis as NotingGlobal)[NOTED] = (refusal) => void noted.push(refusal);
    try {
      return await load(noted);
    } finally {
      delete (globalThis as NotingGlobal)[NOTED];
    }
  })();
  turn = mine;
  return await mine;
}

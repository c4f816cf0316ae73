/**
 * How builders refuse what an author wrote: they throw. While lint loads a skill they note it and go on instead, so that one
 * run shows every mistake. By a global name, for a skill that was bundled has its own copy of this file.
 */
import type { SkillDefinition } from '../../domain/step-machine/definition.ts';

export interface Refusal {
  readonly error: Error;
  /** What was built all the same. */
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

/** @throws the error, unless refusals are noted: then whoever calls goes on as well as it can */
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

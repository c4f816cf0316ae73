/** Skills of random steps that all reach their end. Every driver of such a skill has to see the same. */
import type {
  PromptContext,
  SkillDefinition,
  StepConfig,
  SubskillRegistration,
  TransitionContext,
} from '../../../domain/step-machine/definition.ts';
import { define, TERMINAL } from './erased-skill.ts';

export type Random = (below: number) => number;

export function generator(seed: number): Random {
  let at = seed * 7_919 + 1;
  return (below) => (at = (at * 48_271) % 2_147_483_647) % below;
}

/** @param depth  how deep sub-skills may nest */
export function endingSkill(random: Random, depth: number): SkillDefinition {
  const grown = new Growth(random, depth);
  const end = grown.add({
    save: ({ store }) => ({ step: { last: Object.keys(store.steps), sum: store['sum'] ?? null } }),
    next: TERMINAL,
  });
  const entry = grown.row(end, 2 + random(4), 0, false);
  const { steps, subskills } = grown;
  return {
    kind: 'skill',
    name: 'random',
    version: '1',
    resolveVersion: false,
    entry,
    steps,
    ...(Object.keys(subskills).length === 0 ? {} : { subskills }),
  };
}

/** Grows from the end to the beginning: each piece gets the step that follows it. */
class Growth {
  readonly steps: Record<string, ReturnType<typeof define>> = {};
  readonly subskills: Record<string, SubskillRegistration> = {};
  readonly #random: Random;
  readonly #depth: number;

  constructor(random: Random, depth: number) {
    this.#random = random;
    this.#depth = depth;
  }

  add(config: StepConfig): string {
    const name = `s${Object.keys(this.steps).length}`;
    this.steps[name] = define(config);
    return name;
  }

  row(to: string, length: number, level: number, isBranch: boolean): string {
    let next = to;
    for (let i = 0; i < length; i++) next = this.#piece(next, level, isBranch);
    return next;
  }

  #piece(to: string, level: number, isBranch: boolean): string {
    const random = this.#random;
    const saved: Partial<StepConfig> =
      random(3) === 0 ? { save: ({ store }) => ({ sum: { n: ((store['sum'] as { n?: number })?.n ?? 0) + 1 } }) } : {};
    const action: Partial<StepConfig> = { action: ({ store }) => ({ seen: Object.keys(store.steps).length }) };
    switch (random(level > 1 ? 6 : 9)) {
      case 0:
        return this.add({ ...saved, next: to });
      case 1:
        return this.add({ ...action, ...saved, next: to });
      case 2:
        return this.add({ prompt, ...action, ...saved, next: to });
      case 3:
        return this.add({ prompt, maxVisits: 3, next: ({ attempts }) => (attempts < 3 ? 'self' : to) });
      case 4: {
        const one = this.row(to, 1, level + 1, isBranch);
        return this.add({ prompt, next: [{ to: one, when: isEven }, { to: this.row(to, 1, level + 1, isBranch) }] });
      }
      case 6: {
        const join = this.add({ ...saved, next: to });
        const branches = Array.from({ length: 1 + random(3) }, () => this.row(join, 1 + random(2), level + 1, true));
        return this.add({ ...saved, parallel: { branches, join } });
      }
      case 7:
      case 8:
        if (this.#depth > 0) return this.#subskill(to, saved, isBranch);
    }
    return this.add({ prompt, ...saved, next: to });
  }

  #subskill(to: string, saved: Partial<StepConfig>, isBranch: boolean): string {
    const name = `sub${Object.keys(this.subskills).length}`;
    this.subskills[name] = { definition: endingSkill(this.#random, this.#depth - 1) };
    return !isBranch && this.#random(3) === 0
      ? this.add({ prompt, next: `subskill:${name}` })
      : this.add({ call: name, ...saved, next: to });
  }
}

const prompt = ({ attempts }: PromptContext): string => `visit ${attempts}`;
const isEven = ({ store }: TransitionContext): boolean => store.steps.history.length % 2 === 0;

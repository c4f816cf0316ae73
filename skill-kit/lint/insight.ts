/** Joins built skills to the source that they are made of. */
import { PARENT_TARGET, type SkillDefinition } from '../../domain/step-machine/definition.ts';
import { type BuilderSource, stepsByName, type StepSource } from './builders.ts';
import { functionTargets, type PossibleTarget } from './next-targets.ts';
import { type PromptSource, readPrompt } from './prompt-source.ts';
import type { SkillInsight } from './skill-insight.ts';
import type { Sources } from './sources.ts';
import type { Node } from './syntax.ts';

export interface SourceInsight extends SkillInsight {
  /** Null: the skill is not begun in the files that were read. */
  readonly builder: BuilderSource | null;
  stepNode(step: string): Node | null;
  targetNode(step: string, name: string): Node | null;
  askNode(step: string, ask: number): Node | null;
}

export class Insights {
  readonly #sources: Sources;
  readonly #builders: readonly BuilderSource[];
  readonly #known = new Map<SkillDefinition, SourceInsight>();
  readonly #prompts = new Map<Node, PromptSource>();

  constructor(sources: Sources, builders: readonly BuilderSource[]) {
    this.#sources = sources;
    this.#builders = builders;
  }

  of(skill: SkillDefinition): SourceInsight {
    const known = this.#known.get(skill) ?? this.#read(this.builderOf(skill.name, Object.keys(skill.steps)));
    this.#known.set(skill, known);
    return known;
  }

  /** If several builders have the name, returns the one with the most of these steps. */
  builderOf(name: string, steps: readonly string[]): BuilderSource | null {
    const shared = (builder: BuilderSource): number => steps.filter((step) => stepsByName(builder).has(step)).length;
    return (
      this.#builders
        .filter((builder) => builder.kind === 'skill' && builder.name === name)
        .toSorted((a, b) => shared(b) - shared(a))[0] ?? null
    );
  }

  /** The first one, skill or module, that declares one of the steps. */
  builderWith(steps: readonly string[]): BuilderSource | null {
    return this.#builders.find((builder) => steps.some((step) => stepsByName(builder).has(step))) ?? null;
  }

  /** Null if the prompt is not written in the files. */
  promptOf(step: StepSource): PromptSource | null {
    const prompt = step.config.parts.get('prompt');
    return prompt === undefined ? null : this.prompt(prompt);
  }

  prompt(node: Node): PromptSource {
    const known = this.#prompts.get(node) ?? readPrompt(this.#sources, node);
    this.#prompts.set(node, known);
    return known;
  }

  #read(builder: BuilderSource | null): SourceInsight {
    const steps = builder === null ? new Map<string, StepSource>() : stepsByName(builder);
    const targets = new Map([...steps].map(([name, step]) => [name, this.#targets(step)] as const));
    const asks = (step: string): PromptSource['asks'] | null => {
      const source = steps.get(step);
      return source === undefined ? null : (this.promptOf(source)?.asks ?? null);
    };
    return {
      builder,
      targetsOf(step) {
        const found = targets.get(step);
        return found ? { names: found.targets.map(({ name }) => name), isComplete: found.isComplete } : null;
      },
      asksOf: (step) => asks(step)?.map(({ values }) => values) ?? null,
      stepNode: (step) => steps.get(step)?.nameNode ?? null,
      targetNode: (step, name) => targets.get(step)?.targets.find((target) => target.name === name)?.node ?? null,
      askNode: (step, ask) => asks(step)?.[ask]?.node ?? null,
    };
  }

  #targets({
    config,
    parentTarget,
  }: StepSource): { readonly targets: readonly PossibleTarget[]; readonly isComplete: boolean } | null {
    const next = config.parts.get('next');
    const found = next === undefined ? null : functionTargets(this.#sources, next);
    if (found === null) return null;
    const isOpen = parentTarget === null && found.targets.some(({ name }) => name === PARENT_TARGET);
    return {
      targets: found.targets.map(({ name, node }) => ({
        name: name === PARENT_TARGET ? (parentTarget ?? name) : name,
        node,
      })),
      isComplete: found.isComplete && !isOpen,
    };
  }
}

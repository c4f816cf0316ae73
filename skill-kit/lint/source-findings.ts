/** The findings that need only the source, so that lint reports them even if the skill cannot be loaded. */
import { type BuilderSource, findSharedSteps } from './builders.ts';
import { type PlacedDiagnostic, createDiagnostic } from './diagnostic.ts';
import type { Insights } from './insight.ts';
import { orphanReferences } from './references.ts';
import type { TellAt } from './rule.ts';
import { type ListedRule, RULES } from './rules.ts';
import type { Place, Sources } from './sources.ts';
import type { SourcePrompt, SourceSubject } from './subjects.ts';

/** The parts of a skill that were read from its source. */
export interface SkillSources {
  readonly sources: Sources;
  readonly builders: readonly BuilderSource[];
  readonly insights: Insights;
  /** Where the entry exports the skill. */
  readonly whole: Place;
  /** Where the entry is. */
  readonly folder: string;
}

export function sourceFindings({ folder, ...read }: SkillSources): readonly PlacedDiagnostic[] {
  const found: PlacedDiagnostic[] = [];
  const subject: SourceSubject = {
    ...read,
    prompts: promptsIn(read),
    orphanReferences: () => orphanReferences(read.sources, folder),
  };
  for (const rule of RULES) rule.check.source?.(subject, createReporter(rule, found));
  return found;
}

function createReporter(rule: ListedRule, found: PlacedDiagnostic[]): TellAt {
  const told = new Set<string>();
  return (place, message, { once, ...more } = {}) => {
    const key = JSON.stringify([place, once]);
    if (once === undefined || !told.has(key)) found.push({ ...createDiagnostic(rule, message), ...more, ...place });
    told.add(key);
  };
}

/** Steps from `step()` come last, so that a finding that is reported once names a step if it can. */
function promptsIn({ sources, builders, insights }: Omit<SkillSources, 'folder'>): readonly SourcePrompt[] {
  const configs = [
    ...builders.flatMap(({ steps }) => steps.map(({ config, name }) => ({ config, step: name }))),
    ...findSharedSteps(sources).map((config) => ({ config, step: null })),
  ];
  return configs.flatMap(({ config, step }) => {
    const prompt = config.parts.get('prompt');
    return prompt === undefined ? [] : [{ step, prompt: insights.prompt(prompt) }];
  });
}

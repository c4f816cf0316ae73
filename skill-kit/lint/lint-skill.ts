/** Everything that lint has to say of a skill: of its source, of its definition, and of its files. */
import { dirname } from 'node:path';
import { isCodedError } from '../../domain/errors/coded-error.ts';
import type { Buildable } from '../../domain/step-machine/definition.ts';
import type { SkillDiagnostic } from '../../domain/step-machine/diagnose.ts';
import { BundleError, type BundleMistake } from '../bundle/bundle.ts';
import { findEntry } from '../bundle/find-entry.ts';
import { loadSkill } from '../bundle/load-skill.ts';
import { type BuilderSource, buildersOf } from './builders.ts';
import { definitionFindings } from './definition-findings.ts';
import { type PlacedDiagnostic, said, sorted } from './diagnostic.ts';
import { Insights, type SourceInsight } from './insight.ts';
import { ruleOf, type RuleName } from './rules.ts';
import { sourceFindings } from './source-findings.ts';
import { type Place, Sources } from './sources.ts';
import { is } from './syntax.ts';

export interface LintOptions {
  /** What a relative path is relative to; default the process's own. */
  readonly cwd?: string;
}

/**
 * Looks at the entry and the files that it imports by relative paths, then runs them to look at what they build. Packages are
 * left alone.
 * @param path  the entry, or the folder of the skill
 * @returns all there is to say, by place; `file` is a full path
 * @throws CodedError `skill/not-found`
 */
export async function lintSkill(
  path: string,
  { cwd = process.cwd() }: LintOptions = {},
): Promise<readonly PlacedDiagnostic[]> {
  const entry = findEntry(path, cwd);
  const sources = Sources.read(entry);
  const builders = buildersOf(sources);
  const insights = new Insights(sources, builders);
  const whole = wholePlace(sources, entry);
  const found = [...sourceFindings({ sources, builders, insights, whole, folder: dirname(entry) })];
  // What does not parse would only be said once more.
  if (found.some(({ rule }) => rule === 'syntax')) return sorted(found);
  const loaded = await loadOrExplain(entry);
  if (loaded.kind === 'definition') found.push(...definitionDiagnostics(sources, insights, loaded.definition, whole));
  else if (loaded.kind === 'mistakes') found.push(...mistakesIn(sources, insights, loaded, whole));
  else if (loaded.kind === 'not-bundled')
    found.push(...loaded.mistakes.map(({ message, place }) => saidAt(place ?? whole, 'definition', message)));
  else if (!isSaidAlready(found, loaded.message)) found.push(saidAt(whole, 'definition', loaded.message));
  return sorted(found);
}

type Loaded =
  | { readonly kind: 'definition'; readonly definition: Buildable }
  | { readonly kind: 'mistakes'; readonly skill: string; readonly mistakes: readonly SkillDiagnostic[] }
  | { readonly kind: 'not-bundled'; readonly mistakes: readonly BundleMistake[] }
  | { readonly kind: 'failure'; readonly message: string };

/** The definition, or what its builder or its code says against it. @throws what is no mistake of the author */
export async function loadOrExplain(entry: string): Promise<Loaded> {
  try {
    return { kind: 'definition', definition: (await loadSkill(entry)).definition };
  } catch (error) {
    if (!isCodedError(error) || error.code !== 'skill/unusable') throw error;
    if (error instanceof BundleError) return { kind: 'not-bundled', mistakes: error.mistakes };
    const { cause } = error;
    if (!(cause instanceof Error)) return { kind: 'failure', message: error.message };
    // The class is the bundle's own.
    const { skill, mistakes } = cause as { skill?: unknown; mistakes?: unknown };
    if (cause.name === 'SkillDefinitionError' && typeof skill === 'string' && Array.isArray(mistakes))
      return { kind: 'mistakes', skill, mistakes };
    return { kind: 'failure', message: cause.message };
  }
}

function definitionDiagnostics(
  sources: Sources,
  insights: Insights,
  definition: Buildable,
  whole: Place,
): readonly PlacedDiagnostic[] {
  if (definition.kind === 'reference') return [];
  return definitionFindings(definition, (skill) => insights.of(skill)).map(
    ({ skill, path: _path, ask, target, ...diagnostic }) => {
      const insight = insights.of(skill);
      return { ...diagnostic, ...placeOf(sources, insight, { ...diagnostic, ask, target }, whole) };
    },
  );
}

/** The nearest place that is known: the question or the returned name, the step, the skill, the entry. */
function placeOf(
  sources: Sources,
  insight: SourceInsight,
  {
    step,
    ask,
    target,
  }: { readonly step?: string; readonly ask: number | undefined; readonly target: string | undefined },
  whole: Place,
): Place {
  const node =
    step === undefined
      ? null
      : ((ask === undefined ? null : insight.askNode(step, ask)) ??
        (target === undefined ? null : insight.targetNode(step, target)) ??
        insight.stepNode(step));
  const found = node ?? insight.builder?.root ?? null;
  return found === null ? whole : sources.placeOf(found);
}

function mistakesIn(
  sources: Sources,
  insights: Insights,
  { skill, mistakes }: { readonly skill: string; readonly mistakes: readonly SkillDiagnostic[] },
  whole: Place,
): readonly PlacedDiagnostic[] {
  const builder = insights.builderOf(
    skill,
    mistakes.flatMap(({ step }) => step ?? []),
  );
  return mistakes.map(({ rule, severity, message, step }) => {
    const node = step === undefined ? builder?.root : (stepNode(builder, step) ?? builder?.root);
    return {
      ...saidAt(node === undefined ? whole : sources.placeOf(node), rule, message, severity),
      ...(step === undefined ? {} : { step }),
    };
  });
}

function stepNode(builder: BuilderSource | null, step: string): BuilderSource['root'] | undefined {
  return builder?.steps.findLast(({ name }) => name === step)?.nameNode;
}

function saidAt(
  place: Place,
  rule: RuleName,
  message: string,
  severity?: PlacedDiagnostic['severity'],
): PlacedDiagnostic {
  return { ...said(ruleOf(rule), message, severity), ...place };
}

/** Builders refuse what is registered twice; its place is known from the source. */
function isSaidAlready(found: readonly PlacedDiagnostic[], failure: string): boolean {
  return (
    failure.includes('registered twice') &&
    found.some(({ rule }) => rule === 'composite-duplicate-subskill' || rule === 'composite-duplicate-topic')
  );
}

/** Where the entry exports the skill. */
function wholePlace(sources: Sources, entry: string): Place {
  const program = sources.files.find(({ path }) => path === entry)?.program;
  const exported = program?.body.find((statement) => is(statement, 'ExportDefaultDeclaration'));
  return exported === undefined ? { file: entry, line: 1, column: 1 } : sources.placeOf(exported);
}

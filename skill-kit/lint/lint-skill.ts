/** Lints a skill: its source, its definition and its files. */
import { dirname } from 'node:path';
import type { Buildable } from '../../domain/step-machine/definition.ts';
import { findEntry } from '../bundle/find-entry.ts';
import { type BuilderSource, buildersOf } from './builders.ts';
import { definitionFindings } from './definition-findings.ts';
import { type PlacedDiagnostic, createDiagnostic, sortDiagnostics } from './diagnostic.ts';
import { Insights, type SourceInsight } from './insight.ts';
import { loadOrExplain, type Refused } from './load-or-explain.ts';
import { ruleOf, type RuleName } from './rules.ts';
import { sourceFindings } from './source-findings.ts';
import { type Place, Sources } from './sources.ts';
import { is } from './syntax.ts';

export interface LintOptions {
  /** The folder that a relative path starts from; default: the process's own. */
  readonly cwd?: string;
}

/**
 * Reads the entry and the files that it imports by relative paths, then runs them and checks the definitions that they
 * build. Packages are not checked.
 * @param path  the entry, or the folder of the skill
 * @returns all diagnostics, by place; `file` is a full path
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
  const whole = findWholePlace(sources, entry);
  const found = [...sourceFindings({ sources, builders, insights, whole, folder: dirname(entry) })];
  // What does not parse would only be said once more.
  if (found.some(({ rule }) => rule === 'syntax')) return sortDiagnostics(found);
  const loaded = await loadOrExplain(entry);
  if (loaded.kind === 'definition') found.push(...definitionDiagnostics(sources, insights, loaded.definition, whole));
  else if (loaded.kind === 'not-bundled')
    found.push(
      ...loaded.mistakes.map(({ message, place }) => createDiagnosticAt(place ?? whole, 'definition', message)),
    );
  else if (loaded.kind === 'failure') found.push(createDiagnosticAt(whole, 'definition', loaded.message));
  for (const refused of loaded.refused) found.push(...collectRefusals(sources, insights, refused, whole));
  return sortDiagnostics(found.filter((one) => !isSaidBetter(found, one)));
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

function collectRefusals(
  sources: Sources,
  insights: Insights,
  refused: Refused,
  whole: Place,
): readonly PlacedDiagnostic[] {
  const steps = refused.mistakes.flatMap(({ step }) => step ?? []);
  const builder = refused.skill === null ? insights.builderWith(steps) : insights.builderOf(refused.skill, steps);
  return refused.mistakes.map(({ rule, severity, message, step }) => {
    const node = step === undefined ? builder?.root : (stepNode(builder, step) ?? builder?.root);
    return {
      ...createDiagnosticAt(node === undefined ? whole : sources.placeOf(node), rule, message, severity),
      ...(step === undefined ? {} : { step }),
    };
  });
}

function stepNode(builder: BuilderSource | null, step: string): BuilderSource['root'] | undefined {
  return builder?.steps.findLast(({ name }) => name === step)?.nameNode;
}

function createDiagnosticAt(
  place: Place,
  rule: RuleName,
  message: string,
  severity?: PlacedDiagnostic['severity'],
): PlacedDiagnostic {
  return { ...createDiagnostic(ruleOf(rule), message, severity), ...place };
}

/** Tells whether another diagnostic reports the same as a builder's, but with a place. */
function isSaidBetter(found: readonly PlacedDiagnostic[], { rule, message }: PlacedDiagnostic): boolean {
  if (rule !== 'definition') return false;
  const others = found.filter((one) => one.rule !== 'definition');
  if (message.includes('registered twice')) return others.some((one) => one.rule.startsWith('composite-duplicate-'));
  return message.startsWith('step: next is required') && others.some((one) => one.message.includes('next is required'));
}

/** Where the entry exports the skill. */
function findWholePlace(sources: Sources, entry: string): Place {
  const program = sources.files.find(({ path }) => path === entry)?.program;
  const exported = program?.body.find((statement) => is(statement, 'ExportDefaultDeclaration'));
  return exported === undefined ? { file: entry, line: 1, column: 1 } : sources.placeOf(exported);
}

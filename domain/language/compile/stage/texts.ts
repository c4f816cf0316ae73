/**
 * Compiles texts that contain outputs of earlier stages: reports their mistakes, and finds the stages for which they
 * wait.
 */
import { type ConditionValue, PLAN_LIMITS, type TextPlace, type TextPlan, type TextsPlan } from '../../../plan/plan.ts';
import { codeArguments } from '../../problems/code-arguments.ts';
import { placeIn } from './condition.ts';
import { paramTexts } from './skill.ts';
import { toUntilTemplate } from './wait.ts';
import type { CheckExpressions } from '../../expression/check.ts';
import type { ParamValues } from '../../grammar/param-values.ts';
import { hasExpression, type PlacedExpression, type Splitter } from '../../grammar/placeholders.ts';
import type { Problems } from '../../text/diagnostics.ts';
import type { Script } from '../../script/read-script.ts';
import type { Spec, StageSpec } from '../../read/spec.ts';
import type { Located } from '../../text/tree.ts';
import { quote } from '../../../units/quote.ts';
import { createMapping } from '../../../units/mapping.ts';

export interface StageTexts {
  readonly plan: TextsPlan;
  /** The first place of each stage name. */
  readonly reads: readonly Located<string>[];
  /** The text that the plan's work has for each of these texts. */
  readonly shown: ReadonlyMap<Located<string>, string>;
}

export interface TextTools {
  readonly params: ParamValues;
  /** Null if no stage needs the language, because it is then not loaded. */
  readonly check: CheckExpressions | null;
  readonly split: Splitter;
  /** True if the stages belong to an item, which their texts may read. */
  readonly ofItem: boolean;
  readonly problems: Problems;
}

/** Returns the texts of a stage that contain an expression. */
export function textsWithExpressions({ run, env, approval, wait, prompt, skill }: StageSpec): readonly PlacedText[] {
  const all: readonly PlacedText[] = [
    ...(run?.args ?? []).map((text, index) => ({ text, place: { kind: 'arg', index } as const })),
    ...(approval === null ? [] : [{ text: approval.message, place: { kind: 'message' } as const }]),
    ...(prompt === null ? [] : [{ text: prompt, place: { kind: 'prompt' } as const }]),
    ...(wait === null || wait.until === null
      ? []
      : [{ text: toUntilTemplate(wait.until), place: { kind: 'until' } as const }]),
    ...(skill === null ? [] : paramTexts(skill)).map(({ name, text }) => ({
      text,
      place: { kind: 'param', name } as const,
    })),
    ...(run === null && prompt === null && skill === null ? [] : env).map(({ name, value }) => ({
      text: value,
      place: { kind: 'env', name } as const,
    })),
  ];
  return all.filter(({ text }) => hasExpression(text.value));
}

interface PlacedText {
  readonly text: Located<string>;
  readonly place: TextPlace;
}

/** Returns the texts of each stage, by index into `spec.stages`; null if a stage has no such text. */
export function compileTexts(spec: Spec, tools: TextTools): readonly (StageTexts | null)[] {
  // A single stage cannot read another one: an output in its text is a placeholder that cannot be filled in.
  const isOne = spec.kind === 'agent' || spec.kind === 'sandbox';
  if (isOne && !tools.ofItem) return spec.stages.map(() => null);
  return spec.stages.map((stage) => {
    const texts = textsWithExpressions(stage);
    if (texts.length === 0) return null;
    const what = isOne ? `the ${spec.kind}` : `${spec.kind === 'workflow' ? 'step' : 'box'} ${quote(stage.name.value)}`;
    return compileStageTexts(stage, texts, what, tools);
  });
}

function compileStageTexts(
  { run, name, forEach }: StageSpec,
  texts: readonly PlacedText[],
  what: string,
  tools: TextTools,
): StageTexts {
  const { problems } = tools;
  const reader = new ExpressionReader(tools, forEach !== null || tools.ofItem);
  const code =
    run === null
      ? new Map<number, string>()
      : codeArguments(
          run.program.value,
          run.args.map(({ value }) => value),
        );
  const shown = new Map<Located<string>, string>();
  const plans = texts.map(({ text, place }): TextPlan => {
    const key = nameOfPlace(place, run?.script ?? null);
    const interpreter = place.kind === 'arg' ? code.get(place.index) : undefined;
    const parts = tools.split(text);
    if (interpreter !== undefined) {
      const [first] = parts.filter((part) => typeof part !== 'string');
      problems.error(
        'spec/bad-placeholder',
        text.at,
        `${key} of ${what} has ${quote(`\${{ ${first!.source} }}`)} in a program of ${interpreter}, which would read the value as code`,
        `give it as a variable: \`env: { VALUE: "\${{ … }}" }\`, and read that in the program; a shell script writes "$VALUE"`,
      );
    }
    shown.set(text, parts.map((part) => (typeof part === 'string' ? part : `\${{ ${part.source} }}`)).join(''));
    return {
      place,
      parts: parts.map((part) =>
        typeof part === 'string' ? part : reader.read(part, locateExpression(text, part), `${key} of ${what}`),
      ),
    };
  });
  const { sources, reads, params } = reader;
  if (sources.length > PLAN_LIMITS.textSources)
    problems.error(
      'spec/too-large',
      name.at,
      `${what} has ${sources.length} expressions; at most ${PLAN_LIMITS.textSources} are allowed`,
      'let an earlier stage build the text, and use its output',
    );
  return { plan: { sources, stages: [...reads.keys()], params, texts: plans }, reads: [...reads.values()], shown };
}

function nameOfPlace(place: TextPlace, script: Script | null): string {
  switch (place.kind) {
    case 'arg':
      return '`args`';
    case 'env':
      if (script?.values.some(({ variable }) => variable === place.name) === true) return '`run`';
      return `the variable ${place.name}`;
    case 'param':
      return `the param ${quote(place.name)}`;
    case 'until':
      return '`until`';
    case 'message':
    case 'prompt':
      return `the ${place.kind}`;
  }
}

/** Returns the expression without its text, and its start if that is known. */
export function locateExpression(
  { at, textAt }: Located<string>,
  { source, offset }: PlacedExpression,
): Located<string> {
  if (textAt === undefined) return { value: source, at };
  return { value: source, at, textAt: { line: textAt.line, column: textAt.column + offset } };
}

class ExpressionReader {
  readonly sources: string[] = [];
  readonly reads = new Map<string, Located<string>>();
  readonly params: Record<string, ConditionValue> = createMapping();
  readonly #tools: TextTools;
  readonly #ofItem: boolean;

  /** @param ofItem  true if the expressions may read the item for which the stage runs */
  constructor(tools: TextTools, ofItem: boolean) {
    this.#tools = tools;
    this.#ofItem = ofItem;
  }

  /** @returns the index of the expression in `sources` */
  read({ source }: PlacedExpression, text: Located<string>, what: string): number {
    const known = this.sources.indexOf(source);
    if (known !== -1) return known;
    this.sources.push(source);
    const { check, params, problems } = this.#tools;
    if (check === null) throw new Error('a spec with expressions is compiled without their language');
    const checked = check.text(source, params, this.#ofItem);
    if ('problems' in checked) {
      for (const { message, remedy, start } of checked.problems)
        problems.error(
          'spec/bad-expression',
          placeIn(text, start).at,
          `${quote(`\${{ ${source} }}`)} in ${what}: ${message}`,
          remedy ?? 'see "Outputs in arguments and variables" in docs/reference/spec.md',
        );
      problems.gap('edges');
      return this.sources.length - 1;
    }
    for (const { stage, start } of checked.stages)
      if (!this.reads.has(stage)) this.reads.set(stage, { value: stage, at: placeIn(text, start).at });
    for (const { name, start } of checked.params) {
      const value = params.get(name);
      if (value === undefined)
        problems.error(
          'spec/unknown-param',
          placeIn(text, start).at,
          `${quote(`\${{ ${source} }}`)} in ${what} reads the parameter ${quote(name)}, which is not declared${problems.suggest(name, params.keys())}`,
          `declare it: \`params: {${name}: …}\``,
        );
      else this.params[name] = value?.value ?? '';
    }
    return this.sources.length - 1;
  }
}

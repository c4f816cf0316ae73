/** The texts of an attempt in which values of expressions stand: made of earlier outputs, before anything of it is done. */
import { Buffer } from 'node:buffer';
import type { DataRef, TextPlace, TextPlan, TextsPlan } from '../../domain/plan/plan.ts';
import type { StageFacts } from '../../domain/language/expression/evaluate.ts';
import { EXPRESSION_LIMITS } from '../../domain/language/expression/limits.ts';
import type { ActivityDeps } from '../deps.ts';
import type { StageItem, StageRequest, VmStage } from '../calls/requests.ts';
import { createMapping, valueAt } from '../../domain/units/mapping.ts';

export type TextDeps = Pick<ActivityDeps, 'artifacts' | 'evaluateTexts'>;

/** The stage with its texts, or why they cannot be made. The same outputs give the same texts. */
export async function withTexts(
  deps: TextDeps,
  { stage, upstream, item }: Pick<StageRequest, 'stage' | 'upstream' | 'item'>,
): Promise<VmStage | { readonly problem: string }> {
  const { texts } = stage;
  if (texts === undefined) return stage;
  const made = await makeTexts(deps, texts, upstream, item);
  if ('problem' in made) return made;
  const bytes = made.reduce((sum, { value }) => sum + Buffer.byteLength(value), 0);
  if (bytes > EXPRESSION_LIMITS.textsBytes)
    return {
      problem: `arguments and variables with values of expressions have ${bytes} bytes together; at most ${EXPRESSION_LIMITS.textsBytes} are allowed: take large data with \`inputs\` or \`stdin_from\``,
    };
  return { ...stage, work: fillTexts(stage.work, made) };
}

function fillTexts(work: VmStage['work'], made: readonly MadeText[]): VmStage['work'] {
  const values = new Map(work.env.map(({ name, value }) => [name, value]));
  for (const { place, value } of made)
    if (place.kind === 'env') values.set(place.name, { kind: 'literal', text: value });
  const env = [...values].map(([name, value]) => ({ name, value }));
  if (work.kind === 'agent') {
    const prompt = made.find(({ place }) => place.kind === 'prompt');
    return { ...work, env, ...(prompt === undefined ? {} : { prompt: prompt.value }) };
  }
  if (work.kind === 'skill') {
    const params = createMapping(
      made.flatMap(({ place, value }) => (place.kind === 'param' ? [[place.name, value] as const] : [])),
    );
    return { ...work, env, params: { ...work.params, ...params } };
  }
  const args = [...work.args];
  for (const { place, value } of made) if (place.kind === 'arg') args[place.index] = value;
  return { ...work, args, env };
}

/** A source without the words reads no item. */
const READS_ITEM = /\bitem(?:_index)?\b/;

interface MadeText {
  readonly place: TextPlace;
  readonly value: string;
}

/** Each text with its values, or why there are none. */
export async function makeTexts(
  deps: TextDeps,
  texts: TextsPlan,
  upstream: StageRequest['upstream'],
  of: StageItem | null = null,
): Promise<readonly MadeText[] | { readonly problem: string }> {
  // An item may be far larger than what is evaluated, and be of no text.
  const item = of !== null && texts.sources.some((source) => READS_ITEM.test(source)) ? of : null;
  const outputs = await readOutputs(deps, texts, upstream, item);
  if (typeof outputs === 'string') return { problem: outputs };
  const values = { stages: outputs, params: texts.params, ...(item === null ? {} : { item }) };
  const answer = await deps.evaluateTexts(texts.sources, values);
  if ('problem' in answer)
    return { problem: `the expression \`${shortenSource(texts.sources[answer.source]!)}\`: ${answer.problem}` };
  return texts.texts.map((text) => ({ place: text.place, value: valueOf(text, answer.texts) }));
}

function valueOf({ parts }: TextPlan, values: readonly string[]): string {
  return parts.map((part) => (typeof part === 'number' ? values[part]! : part)).join('');
}

type Outputs = Readonly<Record<string, StageFacts>>;

/** In words what is wrong with them. A stage that ended without an output has none here either. */
async function readOutputs(
  { artifacts }: TextDeps,
  { stages, params }: TextsPlan,
  upstream: StageRequest['upstream'],
  item: StageItem | null,
): Promise<Outputs | string> {
  const refs = stages.map((id): [string, DataRef | null] => [id, valueAt(upstream, id)?.output ?? null]);
  const known = Buffer.byteLength(JSON.stringify(params)) + (item === null ? 0 : Buffer.byteLength(item.text));
  const bytes = refs.reduce((sum, [, ref]) => sum + (ref?.sizeBytes ?? 0), known);
  if (bytes > EXPRESSION_LIMITS.inputBytes)
    return `its expressions read ${bytes} bytes; at most ${EXPRESSION_LIMITS.inputBytes} are allowed: take large data with \`inputs\` or \`stdin_from\``;
  const outputs: [string, StageFacts][] = [];
  for (const [id, ref] of refs) {
    const output = ref === null ? undefined : await textIn(artifacts, ref);
    if (output === null) return `the output of stage ${id} is not UTF-8 text`;
    const redacted = ref?.redacted?.variables;
    outputs.push([
      id,
      { ...(output === undefined ? {} : { output }), ...(redacted === undefined ? {} : { redacted }) },
    ]);
  }
  return createMapping(outputs);
}

/** Null: a value of it would be another one than was printed. */
async function textIn(artifacts: ActivityDeps['artifacts'], ref: DataRef): Promise<string | null> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of artifacts.open(ref)) chunks.push(chunk);
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.concat(chunks));
  } catch {
    return null;
  }
}

function shortenSource(source: string): string {
  return source.length > 200 ? `${source.slice(0, 199)}…` : source;
}

/**
 * The texts of an attempt that contain values of expressions. They are made from earlier outputs, before any other part
 * of the attempt.
 */
import { Buffer } from 'node:buffer';
import type { DataRef, TextPlace, TextPlan, TextsPlan } from '../../domain/plan/plan.ts';
import type { StageFacts } from '../../domain/language/expression/evaluate.ts';
import { EXPRESSION_LIMITS } from '../../domain/language/expression/limits.ts';
import type { ActivityDeps } from '../deps.ts';
import type { StageItem, StageRequest, VmStage } from '../calls/requests.ts';
import { createMapping, valueAt } from '../../domain/units/mapping.ts';

export type TextDeps = Pick<ActivityDeps, 'artifacts' | 'evaluateTexts'>;

/** Returns the stage with its texts, or the problem that prevents them. The same outputs always give the same texts. */
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
      problem: `arguments and variables with values of expressions have ${bytes} bytes together; at most ${EXPRESSION_LIMITS.textsBytes} are allowed: pass large data with \`inputs\` or \`stdin_from\``,
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

/** Matches the names of items. A source without a match reads no item. */
const READS_ITEM = /\bitem(?:_index)?\b/;

interface MadeText {
  readonly place: TextPlace;
  readonly value: string;
}

/** Returns each text with its values, or the problem that prevents them. */
export async function makeTexts(
  deps: TextDeps,
  texts: TextsPlan,
  upstream: StageRequest['upstream'],
  of: StageItem | null = null,
): Promise<readonly MadeText[] | { readonly problem: string }> {
  // Skip an unused item: it may be far larger than the limit of expressions.
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

/**
 * Reads the outputs, or returns a description of the problem. A stage that ended without an output has no output here
 * either.
 */
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
    return `its expressions read ${bytes} bytes; at most ${EXPRESSION_LIMITS.inputBytes} are allowed: pass large data with \`inputs\` or \`stdin_from\``;
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

/** Returns null if the output is not UTF-8, because decoding would change its value. */
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

/**
 * Evaluates the expressions of a trigger for one delivery. It runs text of authors over payloads of strangers, so only
 * a thread that can be ended calls it.
 */
import type { Evaluation } from '../../delivery/decision.ts';
import type { Trigger } from '../../delivery/trigger.ts';
import { splitTriggerText } from '../grammar/trigger-texts.ts';
import { type ExactJson, readExactJson } from '../../units/exact-json.ts';
import { countUtf8Bytes } from '../../units/utf8.ts';
import { computeValue, describeType, type Values, type Variables, writeText } from './evaluate.ts';
import { NotComputable, type PrintedDoubles, toComputable, toSelectable } from './json-values.ts';
import { triggerLanguage } from './language.ts';
import { EXPRESSION_LIMITS } from './limits.ts';

export interface TriggerQuestion {
  readonly trigger: Pick<
    Trigger,
    'name' | 'when' | 'params' | 'input' | 'dedupe' | 'debounce' | 'batch' | 'rate' | 'order'
  >;
  readonly payload: PayloadText;
  /** By names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
}

/** A payload as text; null: its bytes are not UTF-8. */
export interface PayloadText {
  readonly form: 'json' | 'text';
  readonly text: string | null;
}

/** The keys are null where the trigger names none. */
export type TriggerAnswer =
  | (Omit<Evaluation, 'keys'> & { readonly keys: Readonly<Record<keyof Evaluation['keys'], string | null>> })
  | { readonly problem: string; readonly where: string; readonly isPayload: boolean };

class Unanswered extends Error {
  readonly where: string;
  readonly isPayload: boolean;

  constructor(message: string, where: string, isPayload: boolean) {
    super(message);
    this.where = where;
    this.isPayload = isPayload;
  }
}

export function evaluateTrigger({ trigger, payload, headers }: TriggerQuestion): TriggerAnswer {
  const variables = createVariables(payload, headers);
  const fill = (text: string, where: string): string => fillText(text, where, variables);
  const fillKey = (text: string | null | undefined, where: string): string | null =>
    text === null || text === undefined ? null : fill(text, where);
  try {
    const keys = { dedupe: null, debounce: null, batch: null, rate: null, order: null };
    if (!checkCondition(trigger.when, variables)) return { holds: false, params: {}, input: null, keys };
    return {
      holds: true,
      params: Object.fromEntries(
        Object.entries(trigger.params).map(([name, text]) => [name, fill(text, `params.${name}`)]),
      ),
      input: fillKey(trigger.input, 'input'),
      keys: {
        dedupe: fillKey(trigger.dedupe.key, 'dedupe.key'),
        debounce: trigger.debounce === null ? null : fill(trigger.debounce.key ?? '', 'debounce.key'),
        batch: trigger.batch === null ? null : fill(trigger.batch.key ?? '', 'batch.key'),
        rate: trigger.rate === null ? null : fill(trigger.rate.key ?? '', 'rate.key'),
        order: fillKey(trigger.order?.key, 'order.key'),
      },
    };
  } catch (error) {
    if (!(error instanceof Unanswered)) throw error;
    const { message: problem, where, isPayload } = error;
    return { problem, where, isPayload };
  }
}

function checkCondition(when: string | null, variables: Variables): boolean {
  if (when === null) return true;
  const { value } = compute(when, 'when', variables);
  if (typeof value === 'boolean') return value;
  throw new Unanswered(`its value is ${describeType(value)}; a condition must be true or false`, 'when', false);
}

/** @throws Unanswered */
function fillText(text: string, where: string, variables: Variables): string {
  const parts = splitTriggerText(text);
  if (parts === null) throw new Unanswered('it has an open placeholder', where, false);
  let filled = '';
  for (const part of parts) {
    if (typeof part === 'string') {
      filled += part;
      continue;
    }
    const { value, doubles } = compute(part.source, where, variables);
    const written = writeText(value, doubles);
    if ('problem' in written) throw new Unanswered(written.problem, where, false);
    filled += written.text;
    if (countUtf8Bytes(filled) > EXPRESSION_LIMITS.valueBytes)
      throw new Unanswered(`it has more than ${EXPRESSION_LIMITS.valueBytes} bytes`, where, false);
  }
  return filled;
}

function compute(source: string, where: string, variables: Variables) {
  try {
    const answer = computeValue(source, variables, triggerLanguage);
    if ('problem' in answer) throw new Unanswered(answer.problem, where, false);
    return answer;
  } catch (error) {
    if (error instanceof BadPayload) throw new Unanswered(error.message, where, true);
    throw error;
  }
}

class BadPayload extends Error {}

/** The payload is read when the first expression needs it: a trigger without expressions starts with any bytes. */
function createVariables(payload: PayloadText, headers: Readonly<Record<string, string>>): Variables {
  const doubles: PrintedDoubles = new Map();
  const known = new Map<(value: ExactJson) => unknown, Values>();
  let read: ExactJson | undefined;
  const make = (toValue: (value: ExactJson) => unknown) => (): Values => {
    read ??= readPayload(payload);
    let values = known.get(toValue);
    if (values === undefined) {
      values = { input: explain(() => toValue(read!)), headers: new Map(Object.entries(headers)) };
      known.set(toValue, values);
    }
    return values;
  };
  return { forSelection: make(toSelectable), forComputing: make((value) => toComputable(value, doubles)), doubles };
}

/** @throws NotComputable with the place of the number */
function explain<T>(convert: () => T): T {
  try {
    return convert();
  } catch (error) {
    if (error instanceof NotComputable) throw new NotComputable(`the payload has ${error.message}`);
    throw error;
  }
}

/** @throws BadPayload */
function readPayload({ form, text }: PayloadText): ExactJson {
  if (text === null) throw new BadPayload('the payload is not UTF-8 text');
  switch (form) {
    case 'text':
      return text;
    case 'json': {
      const read = readExactJson(text);
      if ('problem' in read)
        throw new BadPayload(`the payload is not JSON: ${read.problem} (at character ${read.at + 1})`);
      return read.value;
    }
  }
}

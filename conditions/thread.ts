/** The thread that conditions are evaluated in, and outputs judged: `threads.ts` starts it, and ends it where that takes too long. */
import { readlinkSync } from 'node:fs';
import { parentPort } from 'node:worker_threads';
import type { JsonValue } from '../domain/plan/plan.ts';
import {
  type ConditionAnswer,
  type ConditionValues,
  evaluateCondition,
  evaluateTexts,
} from '../domain/language/expression/evaluate.ts';
import { evaluateTrigger, type TriggerQuestion } from '../domain/language/expression/evaluate-trigger.ts';
import type { OutputAnswer } from '../domain/language/schema/output-schema.ts';

export type Question = ConditionQuestion | TextsQuestion | OutputQuestion | TriggerQuestion;

export interface TextsQuestion {
  readonly sources: readonly string[];
  readonly values: ConditionValues;
}

export interface ConditionQuestion {
  readonly source: string;
  readonly values: ConditionValues;
}

export interface OutputQuestion {
  readonly schema: JsonValue;
  /** Null: only the schema is looked at. */
  readonly text: string | null;
}

const port = parentPort!;
port.on('message', (question: Question) => {
  if ('source' in question) port.postMessage(evaluateCondition(question.source, question.values));
  else if ('trigger' in question) port.postMessage(evaluateTrigger(question));
  else if ('sources' in question) port.postMessage(evaluateTexts(question.sources, question.values));
  else void judge(question).then((answer) => port.postMessage(answer));
});

async function judge({ schema, text }: OutputQuestion): Promise<ConditionAnswer | OutputAnswer> {
  const [{ judgeOutput, findSchemaProblem }, { loadSchemaEngine }] = await Promise.all([
    import('../domain/language/schema/output-schema.ts'),
    import('../domain/language/schema/schema-engine.ts'),
  ]);
  const engine = await loadSchemaEngine();
  if (text !== null) return judgeOutput(engine, schema, text);
  const problem = findSchemaProblem(engine, schema);
  return problem === null ? { fits: true } : { problem };
}

// The kernel's name for this thread: how long it ran is read by it.
port.postMessage({ thread: readlinkSync('/proc/thread-self') });

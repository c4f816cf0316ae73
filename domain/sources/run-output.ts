/** The output of an ended run that `run.output` of a trigger names, in the payload of the end. */
import type { DataRef } from '../plan/plan.ts';
import { readRef } from './file-payload.ts';

type Fields = Readonly<Record<string, unknown>>;

/**
 * Finds the output with a name: `STAGE`, or `STAGE.OUTPUT`. Both parts may have dots.
 * @param payload  the JSON of the end of a run
 * @returns a text says why it is not one output
 */
export function findRunOutput(payload: string, name: string): DataRef | string {
  const value = parse(payload);
  const stages = readFields(value['stages']);
  const found = [readOutput(readField(stages, name), null)];
  for (let dot = name.indexOf('.'); dot !== -1; dot = name.indexOf('.', dot + 1))
    found.push(readOutput(readField(stages, name.slice(0, dot)), name.slice(dot + 1)));
  const refs = found.flatMap((ref) => ref ?? []);
  const [first] = refs;
  if (first === undefined) {
    const more = Number(value['outputsLeftOut'] ?? 0) > 0 ? ' among the outputs in the payload' : '';
    return `the run ${String(value['run'])} has no output ${name}${more}`;
  }
  return refs.length === 1 ? first : `the run ${String(value['run'])} has several outputs ${name}`;
}

/** @param name  of a named output; null: the output of the stage itself */
function readOutput(stage: unknown, name: string | null): DataRef | null {
  const { output, outputs } = readFields(stage);
  return readRef(name === null ? output : readField(readFields(outputs), name));
}

function readField(fields: Fields, name: string): unknown {
  return Object.hasOwn(fields, name) ? fields[name] : undefined;
}

function readFields(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? (value as Fields) : {};
}

function parse(text: string): Fields {
  try {
    return readFields(JSON.parse(text));
  } catch {
    return {};
  }
}

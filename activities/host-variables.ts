/** Values of a host enter here and nowhere else; the redactor gets the same list. */
import { CodedError } from '../domain/errors/coded-error.ts';
import type { StagePlan } from '../domain/plan/plan.ts';
import { environmentOf } from '../domain/plan/work.ts';
import type { Secret } from '../domain/security/redactor.ts';
import type { HostVariables } from './ports/host-variables.ts';

export interface StageEnvironment {
  readonly env: Readonly<Record<string, string>>;
  /** Values that must not be seen outside the guest. */
  readonly secrets: readonly Secret[];
}

/** @throws CodedError `host/variable-missing` */
export async function resolveEnvironment(
  variables: HostVariables,
  runId: string,
  stage: StagePlan,
): Promise<StageEnvironment> {
  const entries = environmentOf(stage.work);
  const handedOver = entries.some((entry) => entry.value.kind === 'from-host') ? await variables.get(runId) : {};
  const env: Record<string, string> = {};
  const secrets: Secret[] = [];
  for (const { name, value } of entries) {
    if (value.kind === 'literal') {
      env[name] = value.text;
      continue;
    }
    const text = handedOver[value.fromHost];
    if (text === undefined) {
      throw new CodedError(
        'host/variable-missing',
        `stage ${stage.id} reads the variable ${value.fromHost}, which was not handed over: set it where \`voidbox run\` is started`,
      );
    }
    env[name] = text;
    secrets.push({ name: value.fromHost, value: text });
  }
  return { env, secrets };
}

/** Finds secrets that a deployment would lack. */
import type { Environment } from '../../setup/environment.ts';
import { ASK_MS, askService } from './ask-service.ts';

/**
 * Returns the names that neither the deployment nor all deployments have, in the given order.
 * @returns null if the service cannot be asked now, or its list is not for this caller
 */
export async function findAbsentSecrets(
  deployment: string,
  names: readonly string[],
  env: Environment,
): Promise<readonly string[] | null> {
  if (names.length === 0) return [];
  return await askService(env, names, async (client) => {
    const answered = client.send({ path: ['secrets'], answerMs: ASK_MS }).then((answer) => client.parse(answer));
    const known = listNames(await answered.catch(() => null), deployment);
    return known === null ? null : names.filter((name) => !known.includes(name));
  });
}

/** @returns null for an answer of another program */
function listNames(answer: unknown, deployment: string): readonly string[] | null {
  const { secrets } = (answer ?? {}) as { readonly secrets?: unknown };
  if (!Array.isArray(secrets)) return null;
  return secrets.flatMap((each: unknown) => {
    const { name, deployment: of } = (each ?? {}) as { readonly name?: unknown; readonly deployment?: unknown };
    return typeof name === 'string' && (of === null || of === deployment) ? [name] : [];
  });
}

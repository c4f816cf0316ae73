/** Registers the search attributes that a run sets. A server that refuses is used without them. */
import type { Connection } from '@temporalio/client';
import { SEARCH_ATTRIBUTES } from '../workflows/messages.ts';
import { textOf, type Log } from './log.ts';

/** `INDEXED_VALUE_TYPE_KEYWORD` of the server's API. */
const KEYWORD = 2;

export type SearchAttributeServices = Pick<Connection, 'operatorService' | 'workflowService'>;

/**
 * Registers our search attributes and returns the names that the server knows then. A failure to register never
 * rejects.
 */
export async function ensureSearchAttributes(
  connection: SearchAttributeServices,
  namespace: string,
  log: Log,
): Promise<readonly string[]> {
  const wanted = Object.values(SEARCH_ATTRIBUTES);
  const known = await readKnownKeywords(connection, namespace).catch(() => new Map<string, number>());
  const missing = wanted.filter((name) => !known.has(name));
  if (missing.length > 0) {
    try {
      await connection.operatorService.addSearchAttributes({
        namespace,
        searchAttributes: Object.fromEntries(missing.map((name) => [name, KEYWORD])),
      });
      for (const name of missing) known.set(name, KEYWORD);
    } catch (error) {
      const flags = missing.map((name) => `--name ${name} --type Keyword`).join(' ');
      log(
        'warning',
        `runs have no search attributes ${missing.join(', ')} (${textOf(error)}); register them: temporal operator search-attribute create --namespace ${namespace} ${flags}`,
      );
    }
  }
  const clashing = wanted.filter((name) => known.has(name) && known.get(name) !== KEYWORD);
  if (clashing.length > 0)
    log(
      'warning',
      `the search attributes ${clashing.join(', ')} exist with a type other than Keyword; runs do not set them`,
    );
  return wanted.filter((name) => known.get(name) === KEYWORD);
}

async function readKnownKeywords(connection: SearchAttributeServices, namespace: string): Promise<Map<string, number>> {
  const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace });
  return new Map(Object.entries(customAttributes ?? {}).map(([name, type]) => [name, Number(type)]));
}

import { upsertSearchAttributes } from '@temporalio/workflow';
import { SEARCH_ATTRIBUTES } from './messages.ts';

/** @param known  names that admission found on the server: an unknown name would fail the task again and again */
export function setAttributes(
  known: readonly string[],
  values: Partial<Record<keyof typeof SEARCH_ATTRIBUTES, string>>,
): void {
  const attributes = Object.entries(values)
    .map(([key, value]) => ({
      key: { name: SEARCH_ATTRIBUTES[key as keyof typeof SEARCH_ATTRIBUTES], type: 'KEYWORD' as const },
      value,
    }))
    .filter(({ key }) => known.includes(key.name));
  if (attributes.length > 0) upsertSearchAttributes(attributes);
}

/** Receivers that a deployer adds to those of a spec, from a file of their own. */
import { type Notify, NOTIFY_LIMITS } from '../../../notification/notify.ts';
import type { Diagnostic } from '../../../errors/diagnostic.ts';
import { quote } from '../../../units/quote.ts';
import { NOTIFY_FILE } from '../../grammar/notify-table.ts';
import { otherKeys } from '../../grammar/other-keys.ts';
import { readKeys } from '../../grammar/read.ts';
import { readMap } from '../../grammar/reader.ts';
import type { Spec } from '../../read/spec.ts';
import { Problems } from '../../text/diagnostics.ts';
import { readSource } from '../../text/source.ts';
import type { Position } from '../../text/tree.ts';
import { compileNotify } from './compile-notify.ts';

export interface AddedReceivers {
  /** The notifications of the deployment. Those of the spec if a diagnostic is an error. */
  readonly notify: Notify;
  /** The places of the added receivers in their file, by name. */
  readonly places: ReadonlyMap<string, Position>;
  readonly diagnostics: readonly Diagnostic[];
}

/**
 * Reads the keys `notify`, `late_after` and `waiting_after` of a file, YAML or JSON. Its times override those of the
 * spec.
 * @param file  the name of the text in diagnostics
 */
export function addReceivers(ofSpec: Notify, text: string, file: string): AddedReceivers {
  const problems = new Problems(file);
  const root = readMap(readSource(text, problems, file.endsWith('.json')), 'the file of receivers', problems);
  if (root === null) return { notify: ofSpec, places: new Map(), diagnostics: problems.list() };
  const written = readKeys(root, NOTIFY_FILE.keys, { kind: 'workflow', of: NOTIFY_FILE.of });
  root.required('notify', NOTIFY_FILE.keys.notify.form);
  root.finish(otherKeys(NOTIFY_FILE));
  const added = compileNotify(written, problems);
  refuseKnownNames(ofSpec, written.notify, problems);
  const receivers = [...ofSpec.receivers, ...added.receivers];
  const over = written.notify[NOTIFY_LIMITS.receivers - ofSpec.receivers.length];
  if (over !== undefined && written.notify.length <= NOTIFY_LIMITS.receivers)
    problems.error(
      'spec/too-large',
      over.at,
      `the spec and this file have ${ofSpec.receivers.length + written.notify.length} receivers; at most ${NOTIFY_LIMITS.receivers} are allowed`,
      'let one receiver forward its messages',
    );
  const notify = {
    receivers,
    lateAfterMs: written.lateAfterMs ?? ofSpec.lateAfterMs,
    waitingAfterMs: written.waitingAfterMs ?? ofSpec.waitingAfterMs,
  };
  return {
    notify: problems.errorCount() > 0 ? ofSpec : notify,
    places: placeReceivers(written.notify),
    diagnostics: problems.list(),
  };
}

/** Returns the place of the URL or the secret of each receiver, by name. */
export function placeReceivers(receivers: Spec['notify']): ReadonlyMap<string, Position> {
  return new Map(
    receivers.map(({ name, at, webhook, slack, cloudevents }) => [
      name.value,
      webhook?.url.at ?? slack?.secret.at ?? cloudevents?.url.at ?? at,
    ]),
  );
}

/** A message names its receiver, so two receivers cannot have one name. */
function refuseKnownNames({ receivers }: Notify, added: Spec['notify'], problems: Problems): void {
  const known = new Set(receivers.map(({ name }) => name));
  for (const { name } of added)
    if (known.has(name.value))
      problems.error(
        'spec/duplicate-name',
        name.at,
        `the spec has a receiver ${quote(name.value)} too`,
        'rename one of them: the receivers of this file are added to those of the spec',
      );
}

/** The result of a run's workflow: its outcome, with a short output as text for clients that cannot read the store. */
import { REPLY_TEXT_BYTES, type RunOutcome, type RunReply } from '../domain/run/event.ts';
import type { ArtifactStore } from './ports/artifacts.ts';

/** Omits the text if the output cannot be read: the run has ended, and its output is in the store. */
export async function addOutputText(artifacts: Pick<ArtifactStore, 'open'>, outcome: RunOutcome): Promise<RunReply> {
  const { output } = outcome;
  if (output === null || output.sizeBytes > REPLY_TEXT_BYTES) return outcome;
  try {
    const chunks: Uint8Array[] = [];
    for await (const chunk of artifacts.open(output)) chunks.push(chunk);
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.concat(chunks));
    return { ...outcome, outputText: text };
  } catch {
    return outcome;
  }
}

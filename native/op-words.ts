/**
 * The purpose of an op of the keeper, for users who read an error: they know commands, files and VMs, but not the
 * keeper's API.
 */
const WORDS: Readonly<Record<string, string>> = {
  status: 'asking for the state of the VM',
  'exec.start': 'starting the command',
  'exec.wait': 'waiting for the command',
  'exec.output': 'reading output of the command',
  'exec.outputs': 'reading output of the command',
  'exec.stdin': 'passing on standard input of the command',
  'exec.stdin.end': 'ending standard input of the command',
  'exec.end': 'ending the command',
  'exec.signal': 'sending a signal to the command',
  'exec.freeze': 'freezing the command',
  checkpoint: 'making a checkpoint',
  'checkpoint.full': 'saving the VM with its memory',
  'exec.ack': 'deleting stored output of the command',
  'file.put': 'writing a file into the VM',
  'file.get': 'reading a file of the VM',
  'tar.put': 'writing a folder into the VM',
  'tar.get': 'reading a folder of the VM',
};

/** Other ops keep their name: only workers use them. */
export function opWords(op: string): string {
  return Object.hasOwn(WORDS, op) ? WORDS[op]! : op;
}

/** An image that cannot be a guest's root. The named image is at fault, not the machine. */
import { Buffer } from 'node:buffer';
import { SetupError } from '../setup-error.ts';

export class ImageError extends SetupError {
  /** `missing`: no file or folder has this name. */
  readonly why: 'missing' | 'unfit';

  constructor(message: string, remedy: string, why: 'missing' | 'unfit' = 'unfit') {
    super(message, remedy);
    this.why = why;
  }
}

/** Formats a path of an image, whose names are bytes, for a message. */
export function formatPath(path: string): string {
  const text = Buffer.from(path, 'latin1').toString('utf8');
  return JSON.stringify(text.length > 200 ? `${text.slice(0, 200)}…` : text);
}

import { join } from './lockstep.js';

const [ticket, button, status, video] = ['ticket', 'join', 'status', 'video'].map((id) => document.getElementById(id));
ticket.value = location.hash.slice(1);

button.onclick = async () => {
  try {
    const stream = await navigator.mediaDevices.getUserMedia({ video: { width: 640, height: 360 }, audio: true });
    const call = await join(ticket.value, { video });
    status.textContent = 'Connected.';
    await call.send(stream);
    call.addEventListener('message', ({ detail }) => console.log(new TextDecoder().decode(detail.payload)));
    const error = await call.ended;
    status.textContent = error ? error.message : 'The call is over.';
  } catch (error) {
    status.textContent = error.message;
  }
};

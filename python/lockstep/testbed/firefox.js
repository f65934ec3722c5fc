"use strict";
// What Firefox does otherwise than page.html: it has no camera that plays a file and no MediaStreamTrackProcessor. The
// camera is the capture of a <video> that plays the clip (lossless, VP9), which is as exact; what was shown is told by
// requestVideoFrameCallback, whose rtpTimestamp says which of the encoded frames that arrived it was.

let clip = null;

async function camera(options) {
  reading = options.reading;
  clip = document.createElement("video");
  clip.muted = clip.loop = true;
  clip.src = options.clip;
  await new Promise((resolve, reject) => {
    clip.oncanplaythrough = resolve;
    clip.onerror = () => reject(new Error(`the clip cannot be played: ${clip.error.message}`));
  });
  const stream = clip.mozCaptureStream();
  // Nothing is to be sent before the ends have joined, and the clip shall not be over before.
  connection.addEventListener("connectionstatechange", () => connection.connectionState === "connected" && clip.play());
  const [track] = stream.getVideoTracks();
  return {stream, track};
}

// Of a whole picture the browser gives RGB only: that is taken now and then, to see that what was decoded afterwards is
// what was shown.
async function readShown(video, row) {
  const frame = new VideoFrame(video);
  row.width = frame.codedWidth;
  row.height = frame.codedHeight;
  row.format = frame.format;
  try { await readBarcodes(frame, row); } finally { frame.close(); }
}

function read(track, readEvery) {
  const video = document.createElement("video");
  video.muted = true;
  video.srcObject = new MediaStream([track]);
  document.body.append(video);
  let lastRead = -Infinity;
  const onFrame = async (_, metadata) => {
    video.requestVideoFrameCallback(onFrame);
    const row = {at: now(), rtp: metadata.rtpTimestamp ?? null, width: metadata.width, height: metadata.height};
    rows.push(row);
    if (!readEvery || row.at - lastRead < readEvery) return;
    lastRead = row.at;
    const checked = {rtp: row.rtp, checked: true};
    try { await readShown(video, checked); } catch (error) { checked.error = String(error); }
    rows.push(checked);
  };
  video.requestVideoFrameCallback(onFrame);
  video.play();
}

// What has been decoded of the clip, for whether playing it kept up.
const played = () => ({at: clip.currentTime, decoded: clip.getVideoPlaybackQuality().totalVideoFrames});

// The driver's scripts see the page's functions only; what they are given and give is text.
async function asked(name, words) {
  try { return JSON.stringify({value: await (0, eval)(name)(...JSON.parse(words))}); }
  catch (error) { return JSON.stringify({error: String(error)}); }
}
